/** `load` for programs of other sites, such as notebooks: the engine and models of the zoo are next to this file. */
import { load as open } from 'sinkscope';
import { base } from '../base';

export { SinkscopeError, findPlan } from 'sinkscope';

export const load: typeof open = (source, options) =>
  open(source, { base: new URL(ENGINE, base), zoo: new URL(ZOO, base), ...options });
