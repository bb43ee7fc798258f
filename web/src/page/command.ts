/** Makes the command that prints the same numbers as a frame, and a button that copies it. */
import { html, nothing, type TemplateResult } from 'lit';
import type { Edit } from 'sinkscope';
import type { Frame } from '../frame';
import type { PromptFile } from '../ask/question';
import { hubName, nameOfId } from '../ask/ids';
import { parseSubject } from '../ask/subject';
import { heldOutFile, passagesPerPrompt } from '../ask/zoo';

/** For more prompts than this, a command does not list their token ids. */
const MAX_ID_PROMPTS = 10;
/** Milliseconds for which a button says that it has copied. */
const COPIED_MS = 2000;

/** Characters that a terminal obeys when they are pasted into it, even inside quotes. */
const CONTROL_CHARACTERS = /[\0-\x09\x0b-\x1f\x7f-\x9f]/;

/** Quotes a word for a Unix shell, also one that begins with "=", which zsh would expand. */
function shellQuote(word: string): string {
  return /^[\w@%+:,./-][\w@%+=:,./-]*$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

const shellLine = (words: readonly string[]): string => words.map(shellQuote).join(' ');

/** Returns an option and its value, joined if the value looks like an option. */
const optionWords = (name: string, value: string): string[] =>
  value.startsWith('-') ? [`${name}=${value}`] : [name, value];

/** Returns the path of a reader's file; a name that begins with a dash gets ./ before it. */
const pathWord = (name: string) => (name.startsWith('-') ? `./${name}` : name);

function editWords({ kind, ...fields }: Edit): string {
  const { parameters = {}, ...options } = fields as Record<string, unknown>;
  const entries = Object.entries({ ...options, ...(parameters as object) }).filter(
    ([, value]) => value !== undefined,
  );
  return `${kind}(${entries.map(([name, value]) => `${name}=${value}`).join(',')})`;
}

function modelWords({ model, subject }: Frame): string {
  const parsed = parseSubject(subject)!;
  if (model.source === 'hub') return hubName(parsed.id);
  if (model.source === 'disk') return 'FOLDER';
  return `models/zoo/${parsed.id}${model.step ? `@${model.step.step}` : ''}`;
}

/** Returns the options for the prompts; undefined if the command line has none for them. */
function promptWords(frame: Frame, file: PromptFile | undefined): string[] | undefined {
  const { question, T, sequences, generated } = frame;
  const sizeOptions = ['--tokens', String(T), '--sequences', String(sequences)];
  if (question.input === 'heldout') {
    const perPrompt = passagesPerPrompt(question.T);
    return [
      ...['--text-file', `models/zoo/${heldOutFile(question.T)}`, '--lines'],
      ...(perPrompt > 1 ? ['--join', String(perPrompt)] : []),
      ...sizeOptions,
    ];
  }
  const isText = question.input === 'text' && !generated;
  if (isText && question.prompt && !CONTROL_CHARACTERS.test(question.prompt))
    return [...optionWords('--text', question.prompt), ...sizeOptions];
  if (question.input === 'file' && file?.splitting !== 'blocks')
    return [
      ...['--text-file', pathWord(file?.name ?? 'FILE')],
      ...(file?.splitting === 'lines' ? ['--lines'] : []),
      ...sizeOptions,
    ];
  const ids = frame.ids.slice(0, MAX_ID_PROMPTS);
  if (question.input === 'file' || ids.length < sequences) return undefined;
  return ids.flatMap((promptIds) => ['--ids', promptIds.join()]);
}

/** Returns the command of a frame; undefined if the command line cannot measure the frame. */
export function commandOf(frame: Frame, file?: PromptFile): string | undefined {
  if (frame.recording)
    return shellLine(['sinkscope', 'measure', pathWord(`${nameOfId(frame.model.id)}.safetensors`)]);
  const prompts = promptWords(frame, file);
  if (!prompts || frame.question.window) return undefined;
  const { first } = frame.question;
  const hasTokenIds = prompts[0] === '--ids';
  const words = [
    ...['sinkscope', 'measure', modelWords(frame), ...prompts],
    ...(first && !hasTokenIds ? optionWords('--special', first) : []),
    ...frame.edits.flatMap((edit) => ['--edit', editWords(edit)]),
    ...['--eps', String(frame.eps)],
    // `bytes` is present only if the run was streamed.
    ...(frame.bytes ? ['--streaming'] : []),
  ];
  return shellLine(words);
}

export function copyCommandButton(command: string | undefined): TemplateResult | typeof nothing {
  if (!command) return nothing;
  const copy = async (event: Event) => {
    const button = event.currentTarget as HTMLButtonElement;
    await navigator.clipboard.writeText(command);
    button.classList.add('copied');
    setTimeout(() => button.classList.remove('copied'), COPIED_MS);
  };
  return html`<button
    type="button"
    class="copy-command"
    title=${command}
    aria-label="Copy the command that prints these numbers"
    @click=${(event: Event) => void copy(event).catch(() => {})}
  >
    <code>&gt;_</code>
  </button>`;
}
