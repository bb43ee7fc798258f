import { PATIENCE } from './ask.js';
import { checkOptions, urlOf } from '../abi/arguments.js';
import { fetchFile } from './download.js';

/** @type {typeof import('../sinkscope.js').openDownload} */
export async function openDownload(url, options = {}) {
  checkOptions(options, { ...PATIENCE, from: 'count', version: 'text', bytes: 'count' });
  return fetchFile(urlOf(url, undefined, 'url'), options);
}
