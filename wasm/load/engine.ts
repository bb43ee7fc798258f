/** The engine of engine/, with recordings and trainings as lazy imports. */
import { JOB_OPTIONS, checkOptions } from '../abi/arguments.ts';
import {
  ModelEngine,
  checkSource,
  dropIfAborted,
  startEngine,
  toPostable,
} from '../engine/client.ts';
import { transfer } from '../engine/messages.ts';
import type { Options } from '../abi/types.ts';
import type { EngineParts, RecordRun } from '../engine/client.ts';
import type { EngineOptions } from '../engine/types.ts';
import type { TrainOptions } from '../lab/types.ts';
import type { Source } from '../loading/types.ts';
import type { Engine as EngineShape } from './types.ts';

const recordRun: RecordRun = async (...args) =>
  (await import('../recording/run.ts')).recordRun(...args);

export const createEngine = async (options: EngineOptions = {}): Promise<EngineShape> =>
  new Engine(await startEngine(options));

class Engine extends ModelEngine implements EngineShape {
  constructor(parts: EngineParts) {
    super(parts, recordRun);
  }

  async openRecording(source: Source, options: Options = {}) {
    checkSource(source, 'source', false);
    checkOptions(options, JOB_OPTIONS);
    const { Recording } = await import('../recording/recording.ts');
    const makeMessage = () => {
      const streams: ReadableStream[] = [];
      const message = toPostable(source, streams);
      return transfer(message, streams);
    };
    const recording = new Recording(this.parts.reader, this.describe, makeMessage);
    await recording.open(options);
    await dropIfAborted(options.signal, recording);
    return recording;
  }

  async train(options: TrainOptions) {
    const { beginTraining } = await import('../lab/training.ts');
    return beginTraining(this.parts.links, this.describe, options);
  }
}
