/** Writes the folder of a training: its checkpoints while it runs, then the trained model. */
import { access, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from '../abi/errors.ts';
import { currentPath } from '../host/node_folder.ts';
import { labFolder, labTokenizer } from '../lab/folder.ts';
import { sha256 } from '../loading/hash.ts';
import { openOut } from './out_folder.ts';
import type { LabRecipe, Training } from '../lab/types.ts';

export interface TrainingPlan {
  config: object;
  recipe: Record<string, number | string>;
  begin?: Uint8Array;
  /** The bytes of `Training.state` from which an unfinished training continues. */
  state?: Uint8Array;
  /** Number of steps to take; absent: the `steps` of the recipe. */
  steps?: number;
  text?: { ids: Int32Array; content: string; name: string };
  /** Texts of the tokenizer's files; absent when the training uses the lab's own characters. */
  tokenizerFiles?: { tokenizer: string; tokenizerConfig?: string };
  from: LabRecipe['from'];
}

/** The files of `labFolder` without weights, the recipe naming all steps, and the last state. */
export const checkpointFolderOf = (folder: string) => join(folder, 'checkpoint');
export const STATE_FILE = 'training.state';

const WEIGHTS_FILE = 'model.safetensors';
const TOKENIZER_CONFIG_FILE = 'tokenizer_config.json';
const MODEL_FILES = [
  ...['config.json', WEIGHTS_FILE, 'tokenizer.json', TOKENIZER_CONFIG_FILE],
  ...['text.txt', 'recipe.json'],
];

/** Returns the number of steps that the bytes of `Training.state` have taken. */
export function stepOf(state: Uint8Array) {
  expect(state.length >= 8, STATE_FILE, 'the state of a training', `${state.length} bytes`);
  return new DataView(state.buffer, state.byteOffset).getUint32(4, true);
}

/** Opens the folder of --out, which keeps an old model; `settings` are all, with defaults. */
export async function openTrainedFolder(
  out: string,
  { config, begin, state, text, tokenizerFiles, from, steps }: TrainingPlan,
  settings: Record<string, number | string>,
) {
  const folder = await openOut(out, MODEL_FILES);
  const checkpointFolder = await openOut(checkpointFolderOf(out), [STATE_FILE]);
  const { vocab_size: vocabulary } = config as { vocab_size?: number };
  const { triggers, first } = settings as Record<string, number>;
  const { tokenizer, tokenizerConfig }: { tokenizer: string; tokenizerConfig?: string } =
    tokenizerFiles ?? labTokenizer({ vocabulary, triggers, first });
  const source = from && { ...from, ...(begin ? { sha256: await sha256(begin) } : {}) };
  const textRecord = text && {
    name: text.name,
    tokens: text.ids.length,
    sha256: await sha256(text.content),
  };
  // The configuration of the tokenizer of an older model must not remain in the folder.
  const hasOldConfig = await access(await currentPath(out, TOKENIZER_CONFIG_FILE)).then(
    () => true,
    () => false,
  );
  const makeFiles = (weights: Uint8Array, stepsDone: number) =>
    labFolder({
      config,
      weights,
      tokenizer,
      tokenizerConfig: tokenizerConfig ?? (hasOldConfig ? '{}' : undefined),
      recipe: { settings, steps_done: stepsDone, from: source ?? null, text: textRecord ?? null },
      text: text?.content,
    });
  let lastStep = state && stepOf(state);
  return {
    /** Step of the last checkpoint, from which `train --resume` continues. */
    get lastStep() {
      return lastStep;
    },
    async saveCheckpoint(training: Training) {
      const newState = await training.state();
      const otherFiles =
        lastStep === undefined
          ? makeFiles(await training.weights(), steps ?? Number(settings.steps))
          : [];
      await checkpointFolder.write([
        ...otherFiles.filter(({ path }) => path !== WEIGHTS_FILE),
        { path: STATE_FILE, data: newState },
      ]);
      lastStep = stepOf(newState);
    },
    async saveModel(training: Training) {
      await folder.write(makeFiles(await training.weights(), stepOf(await training.state())));
    },
    async removeCheckpoint() {
      // Without its state, a checkpoint counts as none.
      await rm(join(checkpointFolderOf(out), STATE_FILE), { force: true });
      await rm(checkpointFolderOf(out), { recursive: true, force: true });
    },
  };
}

export type TrainedFolder = Awaited<ReturnType<typeof openTrainedFolder>>;
