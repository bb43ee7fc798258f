/** The inputs of a training run: a model and its recipe, a tokenizer, and the text of each token. */
import type { TrainOptions } from 'sinkscope';

export interface Setup {
  readonly options: TrainOptions;
  readonly piece: (id: number) => string;
  /** The texts of tokenizer.json and tokenizer_config.json. */
  readonly tokenizer: string;
  readonly tokenizerConfig: string;
  /** The text of the token before every sequence; absent: sequences have no such token. */
  readonly firstText?: string;
  /** For training on a text: its number of tokens, its name, and the text itself. */
  readonly text?: { readonly tokens: number; readonly name: string; readonly content: string };
  /** Held-out sequences like those that the model was trained on before; absent: held-out loss is not measured. */
  readonly heldOut?: readonly (readonly number[])[];
  /** The model that training continues from: its folder, and its step if it is a checkpoint. */
  readonly source?: {
    readonly model: string;
    readonly step: number | null;
    /** That of model.safetensors, of a model's last step. */
    readonly sha256?: string;
  };
}
