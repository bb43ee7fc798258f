/**
 * What the package has for models and recordings from outside the zoo. The page imports this module when a reader opens
 * one, since its first picture needs none of it.
 */
export { filesOfDrop, planFiles, resolveHub } from 'sinkscope';
export { cacheBytes, cacheClear, cacheList, markOf, openPlan } from 'sinkscope/internal';
