/** `load` for programs of other sites, such as notebooks: the engine and models of the zoo lie beside this file. */
import { load as open, type DiskFile } from 'sinkscope';
import { openZoo, textOf } from '../ask/zoo';
import { base } from '../base';

export { SinkscopeError, findPlan } from 'sinkscope';

/** The files of a model of the zoo, with exact weights; undefined for other names. */
async function zooFiles(id: string): Promise<DiskFile[] | undefined> {
  const zoo = await openZoo();
  const card = zoo.cards.find((one) => one.id === id);
  if (!card) return undefined;
  const [{ config, weights }, tokenizer] = await Promise.all([
    zoo.exact(id),
    textOf(`${card.tokenizer}/tokenizer.json`),
  ]);
  const parts: readonly (readonly [string, BlobPart])[] = [
    ['config.json', config],
    ['model.safetensors', weights as Uint8Array<ArrayBuffer>],
    ['tokenizer.json', tokenizer],
    ['tokenizer_config.json', JSON.stringify(card.tokenizer_config)],
  ];
  return parts.map(([name, part]) => ({ path: `${id}/${name}`, file: new Blob([part]) }));
}

/** The package's `load`, which also takes the name of a model of the zoo: 'softmax'. */
export const load: typeof open = async (source, options) => {
  const isName = typeof source === 'string' && /^[\w-]+$/.test(source);
  const files = isName ? await zooFiles(source) : undefined;
  return open(files ?? source, { base: new URL(ENGINE, base), ...options });
};
