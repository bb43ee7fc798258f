/**
 * Turns a lesson from Markdown into a page. Directives (remark-directive) replace syntax that Markdown lacks:
 *
 *     ::figure[Caption.]{#map view="heads" shown="softmax"}   a figure: <sink-scope> in a state, over its picture
 *     ::row[Caption.]{switches="bias" bias="key" beside="softmax1"}  one row with switches and sliders (src/learn/rows.ts)
 *     ::write[Caption.]{#write model="softmax" prompt="..."} a model writes on with three KV caches
 *     ::deleted[Caption.]{}                                   what a published model writes without its first token
 *     ::count{figure="map"}                                   counts the heads that a reader opens
 *     ::dots[Caption.]{recipes="softmax sigmoid" step="4000" outcome="alpha"}  each seed's long run as a dot
 *     ::runs[Caption.]{groups="Softmax: decay-0 softmax | Sigmoid: sigmoid"}   each run's sink against its loss
 *     ::costs{}  ::claims{}                                   tables made from the zoo and models/claims.json
 *     ::remedies[Caption.]{}                                  what production models do about their sinks
 *     :::predict[Question?]{min=0 max=24} ... :::             a guess, then the answer
 *     :::exercise ... :::
 *     :live[60%]{figure="map" value="share"}                  a number of the run behind a figure
 *     :when[It is dark.]{figure="map" if="alpha > 2 uniform"} a sentence while it is true of the run behind a figure;
 *                                                             those that follow one another are its cases
 *     :data[60%]{of="zoo softmax measured sink_1"}            a number of a table, checked by the build
 *     :set[30%]                                               a number that somebody chose, such as a threshold
 *     :paper[74%]{of="..."}                                   a number that a paper reports; `of` where a table has it
 *
 * Links that begin with # lead to a state of the page.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Root, Paragraph } from 'mdast';
import { toString } from 'mdast-util-to-string';
import rehypeKatex from 'rehype-katex';
import rehypeStringify from 'rehype-stringify';
import remarkDirective from 'remark-directive';
import remarkGfm from 'remark-gfm';
import remarkMath from 'remark-math';
import remarkParse from 'remark-parse';
import remarkRehype from 'remark-rehype';
import { unified } from 'unified';
import {
  attend,
  defaultRow,
  forms,
  formulaOf,
  SWITCHES,
  type MathNode,
  type Row,
  type Switch,
} from '../src/learn/rows.ts';
import { formatPercent } from '../src/learn/format.ts';
import {
  CONDITION_NAMES,
  CONDITIONS,
  readRecorded,
  type RecordedTrials,
} from '../src/run/without_first.ts';
import { isTrue } from '../src/learn/conditions.ts';
import { claimsTables } from './claims.ts';
import { remedyTable } from './remedies.ts';
import { linkTerms } from './terms.ts';
import { formatSigned, make, table, text, type Node } from './nodes.ts';
import { dotsOf } from './dots.ts';
import { parseGroups, runsOf } from './runs.ts';
import { decisiveRuns, meanOf, modelsOfZoo, numberProblem } from './facts.ts';

interface LessonFigure {
  /** The name of the figure's picture: `1-map`. */
  readonly id: string;
  /** The attributes of the <sink-scope> element. */
  readonly state: Readonly<Record<string, string>>;
}

/** A picture of a figure, as web/lessons/draw.mjs draws it. */
export interface Picture {
  readonly state: Readonly<Record<string, string>>;
  readonly says: string;
  readonly values: Readonly<Record<string, string>>;
  readonly width: number;
  readonly height: number;
  /** Heights of the element in a lesson's column and on a phone, in pixels, which the page reserves until it is live. */
  readonly live: number;
  readonly phone: number;
}

/** Texts that a model generated, as web/lessons/draw.mjs records them. */
interface Writing {
  readonly id: string;
  readonly model: string;
  readonly prompt: string;
  readonly rows: readonly {
    readonly cache: string;
    readonly text: string;
    readonly distinct: string;
  }[];
  /** Formatted means over seeds, and the changes between caches with their intervals, by name. */
  readonly values: Readonly<Record<string, string>>;
}

/** A sentence that a lesson shows while a condition holds for a figure's run. */
interface ConditionalSentence {
  readonly figure: string;
  readonly condition: string;
  readonly text: string;
  /** The group of sentences that follow one another: on every text, one sentence of the group must be true. */
  readonly group: number;
}

/** What the directives of a lesson contribute to it. */
interface LessonParts {
  readonly figures: LessonFigure[];
  readonly writes: Pick<Writing, 'id' | 'model' | 'prompt'>[];
  readonly links: string[];
  readonly liveNumbers: {
    readonly figure: string;
    readonly value: string;
    readonly stated: string;
  }[];
  readonly conditionalSentences: ConditionalSentence[];
  readonly problems: string[];
}

export interface Lesson extends LessonParts {
  /** The lesson's address below `learn/`, which is the name of its file and stays when lessons are inserted. */
  readonly slug: string;
  /** The lesson's place in lessons/order.json, from 1; 0 if it is not listed. */
  readonly number: number;
  readonly title: string;
  readonly description: string;
  readonly minutes: number;
  /** The number of words of the text, figures and tables excluded. */
  readonly wordCount: number;
  readonly html: string;
}

/** The attributes of each directive; of a figure, only the attributes of <sink-scope> that lessons use. */
export const ATTRIBUTES: Readonly<Record<string, readonly string[]>> = {
  figure: [
    ...['id', 'view', 'shown', 'controls', 'hide', 'input', 'prompt', 'seed', 'first', 't', 'n'],
    ...['eps', 'layer', 'head', 'query', 'key', 'curve', 'leftrun', 'rightrun', 'experiment'],
  ],
  row: ['switches', 'beside', ...Object.keys(SWITCHES)],
  write: ['id', 'model', 'prompt'],
  deleted: [],
  count: ['figure'],
  costs: ['models'],
  dots: ['recipes', 'step', 'outcome'],
  runs: ['groups'],
  claims: [],
  remedies: [],
  predict: ['min', 'max', 'unit', 'choices', 'answer'],
  exercise: [],
  live: ['figure', 'value'],
  when: ['figure', 'if'],
  set: [],
  data: ['of', 'as'],
  paper: ['of', 'as'],
};

const lessonsFolder = join(import.meta.dirname, '../lessons');
const picturesFolder = join(lessonsFolder, 'pictures');

export const ORDER = JSON.parse(
  readFileSync(join(lessonsFolder, 'order.json'), 'utf8'),
) as readonly string[];
const numberOf = (slug: string) => ORDER.indexOf(slug) + 1;

/** Returns the prefix of the names of a lesson's pictures: the number in its slug if it has one, otherwise the slug. */
export const picturesPrefix = (slug: string) => /^\d+/.exec(slug)?.[0] ?? slug;

export const HOME = '../../index.html';
const WORDS_A_MINUTE = 110;
/** The values of a figure's run that are means of weights of its map, not of shares. */
const WEIGHT_VALUES = ['alpha', 'second_alpha', 'second_key'];

/** Reads a table that web/lessons/draw.mjs writes; it is empty before the first run of that script. */
function readTable<T>(name: string): Readonly<Record<string, T>> {
  const file = join(picturesFolder, name);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Record<string, T>) : {};
}
export const readPictures = () => readTable<Picture>('pictures.json');
export const readWritings = () => readTable<Writing>('writings.json');

const { version: VERSION } = JSON.parse(
  readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'),
) as { readonly version: string };

/** Explains that another version of the page drew a figure's picture; undefined if this version drew it. */
export function staleWords(name: string, svg: string): string | undefined {
  const stamp = /Sinkscope (\d[\d.]*)/.exec(svg)?.[1];
  return stamp === VERSION
    ? undefined
    : `the picture ${name} was drawn by version ${stamp ?? 'unknown'}, expected ${VERSION}: node web/lessons/draw.mjs ${name}`;
}

/** A number in a text that looks like a measurement, so that it must have a source. */
const MEASUREMENT = /\d(?:[\d,.]*\d)?(?:%| nats?\b|×)/;
/** Numbers that hold by definition and need no source: a whole, and the level of an interval. */
const DEFINED_NUMBERS = /\b100%|\b(?:95|97\.5)% intervals?/g;

/** Whether a figure is one model's map, which is drawn narrower than the column to fit on a screen with its text. */
export const isNarrow = ({ view = '', shown = '' }: Readonly<Record<string, string>>) =>
  ['attention', 'heads', 'contribution', 'bias', 'gate', 'effects'].includes(view) &&
  !/,(?![^(]*\))/.test(shown);

/** Returns a table of the sink and the loss of recipes, by the runs of protocol B. */
function costTable(ids: readonly string[]): Node {
  const BASE = 'softmax';
  const comparedCards = modelsOfZoo().filter(({ id, differs }) => id === BASE || differs);
  const cards = Object.fromEntries(comparedCards.map((card) => [card.id, card]));
  const rows = ids.map((id) => {
    const { title, differs, measured } = cards[checkedWord(id, 'model', cards)]!;
    const bias = 'sink_bias' in measured ? `${Number(measured.sink_bias).toFixed(0)}%` : '–';
    if (id === BASE) {
      const { seeds, alpha, loss } = decisiveRuns()[id]!;
      return [
        title,
        String(seeds.length),
        `α₁ is ${meanOf(alpha).toFixed(2)} above uniform attention`,
        `${meanOf(loss).toFixed(2)} nats`,
        bias,
      ];
    }
    const { seeds, alpha, loss } = differs!;
    const interval = ([mean, low, high]: typeof alpha) =>
      `${formatSigned(mean, 3)} (${formatSigned(low, 3)} to ${formatSigned(high, 3)})`;
    return [title, String(seeds), interval(alpha), interval(loss), bias];
  });
  return table(
    [
      'Model',
      'Seeds',
      'α₁, difference to softmax',
      'Loss, difference (nats)',
      'Sink on the bias key',
    ],
    rows,
  );
}

const mathOf = ([tag, ...children]: MathNode): Node =>
  make(
    tag,
    {},
    children.map((child) => (typeof child === 'string' ? text(child) : mathOf(child))),
  );

function checkedWord(word: string, kind: string, choices: object): string {
  if (!Object.hasOwn(choices, word))
    throw new Error(`The ${kind} “${word}”: expected one of ${Object.keys(choices).join(', ')}.`);
  return word;
}

/** Returns a row in its initial state, as a formula and a table, which pages without JavaScript show. */
function initialRow({ switches = '', beside = '', ...set }: Record<string, string>): Node[] {
  const splitWords = (text: string) => text.split(/\s+/).filter(Boolean);
  for (const name of splitWords(switches)) checkedWord(name, 'switch', SWITCHES);
  for (const [name, value] of Object.entries(set))
    checkedWord(value, name, SWITCHES[checkedWord(name, 'switch', SWITCHES) as Switch].values);
  const row: Row = { ...defaultRow, ...(set as Partial<Row>) };
  const formsBeside = splitWords(beside).map((name) => forms[checkedWord(name, 'form', forms)]!);
  const results = [row, ...formsBeside.map((form) => ({ ...row, ...form.settings }))].map(attend);
  const formatScore = (i: number) => String(defaultRow.scores[i]).replace('-', '−');
  return [
    make(
      'p',
      { className: ['row-formula'] },
      formulaOf(row).map((formula) => mathOf(['math', formula])),
    ),
    table(
      ['Token', 'Score x', 'This formula', ...formsBeside.map(({ title }) => title)],
      [
        ...defaultRow.scores.map((_, i) => [
          `token ${i + 1}`,
          formatScore(i),
          ...results.map(({ weights }) => formatPercent(weights[i]!)),
        ]),
        [
          'no token',
          '',
          ...results.map(({ extraWeight }) => (extraWeight ? formatPercent(extraWeight) : '–')),
        ],
      ],
    ),
  ];
}

/** Removes and returns the label of a container, which remark-directive makes its first paragraph. */
function takeLabel(node: Node): readonly Node[] {
  const [firstChild] = node.children ?? [];
  if (!firstChild?.data?.directiveLabel) return [];
  node.children!.shift();
  return firstChild.children ?? [];
}

const SENTENCE_GAP = /(?<=[.!?:]\)?)\s+(?=[“(\p{Lu}])/u;

/** Splits a paragraph into sentences, each with its words and the figures whose numbers it states unconditionally. */
function sentencesOf(node: Node): { readonly text: string; readonly figures: readonly string[] }[] {
  const figures: string[] = [];
  // A private-use character replaces each number, so that the sentence with it can be found.
  const plainText = (child: Node): string => {
    if (child.name === 'when') return ' ';
    if (child.name === 'live') {
      figures.push(child.attributes?.figure ?? '');
      return `${toString(child)}\uE000`;
    }
    return child.children ? child.children.map(plainText).join('') : toString(child);
  };
  const text = plainText(node);
  return text.split(SENTENCE_GAP).map((sentence) => ({
    text: sentence.replaceAll('\uE000', ''),
    figures: figures.splice(0, sentence.split('\uE000').length - 1),
  }));
}

/** Matches a phrase with which a sentence names its text, so that its numbers need not hold for other texts. */
const TEXT_REFERENCE =
  /\b(?:this|the (?:first|same)) (?:text|step)\b|\bon the text in\b|\bthis lesson’s prompt\b/i;

function replaceBy(node: Node, replacement: Node): void {
  node.data = replacement.data!;
  node.children = replacement.children!;
}

/** Replaces a directive, whose children are the caption, by a figure. */
function replaceByFigure(node: Node, content: readonly Node[], className?: string[]): void {
  const caption = node.children?.length ? [make('figcaption', {}, node.children)] : [];
  replaceBy(node, make('figure', { className }, [...content, ...caption]));
}

/** What directives know of the lesson that they stand in. */
class LessonContext {
  readonly prefix: string;
  readonly parts: LessonParts;
  readonly pictures = readPictures();
  /** Figures whose text, step or prompt the reader can change. */
  readonly changingFigures = new Set<string>();
  readonly normalizedFigures = new Set<string>();
  /** How many groups of `:when` began so far. */
  group = 0;

  constructor(slug: string, parts: LessonParts) {
    this.prefix = picturesPrefix(slug);
    this.parts = parts;
  }

  hrefOf = (state: string): string => {
    this.parts.links.push(state.replace(/^#/, ''));
    return `${HOME}#${state.replace(/^#/, '')}`;
  };

  errorAt(node: Node, what: string): void {
    this.parts.problems.push(`line ${node.position?.start.line ?? '?'}: ${what}`);
  }

  /** Returns a number of a figure's run, as it was when the picture was drawn. */
  valueIn(figure: string, value: string): string | undefined {
    const name = `${this.prefix}-${figure}`;
    const values = (this.pictures[name] ?? readWritings()[name])?.values ?? {};
    return Object.hasOwn(values, value) ? values[value] : undefined;
  }

  classifyFigures(node: Node): void {
    const { id = '', controls = '', normalize } = node.attributes ?? {};
    const hasControl = node.name === 'figure' && /\b(?:text|step)\b/.test(controls);
    if (hasControl || node.name === 'write') this.changingFigures.add(id);
    if (node.name === 'figure' && normalize === 'yes') this.normalizedFigures.add(id);
    node.children?.forEach((child) => this.classifyFigures(child));
  }
}

type Handler = (node: Node, attributes: Record<string, string>, lesson: LessonContext) => void;

/** Replaces each directive by the elements of the page. */
const HANDLERS: Readonly<Record<string, Handler>> = {
  figure(node, { id = '', ...state }, lesson) {
    const name = `${lesson.prefix}-${id}`;
    lesson.parts.figures.push({ id: name, state });
    const picture = lesson.pictures[name];
    const staleProblem =
      picture && staleWords(name, readFileSync(join(picturesFolder, `${name}.svg`), 'utf8'));
    if (staleProblem) lesson.errorAt(node, staleProblem);
    const image = picture
      ? [
          make('img', {
            src: `/lessons/pictures/${name}.svg`,
            alt: picture.says.trim() || toString(node),
            width: picture.width,
            height: picture.height,
            loading: 'lazy',
          }),
        ]
      : [];
    const heights = picture
      ? { style: `--column-height:${picture.live}px;--phone-height:${picture.phone}px` }
      : {};
    const element = make('sink-scope', { id, ...state, ...heights }, image);
    replaceByFigure(node, [element], ['lesson-figure', ...(isNarrow(state) ? ['narrow'] : [])]);
  },
  row(node, attributes) {
    const element = make('sink-row', attributes, initialRow(attributes));
    replaceByFigure(node, [element], ['lesson-figure']);
  },
  write(node, { id = '', model = '', prompt = '' }, lesson) {
    const name = `${lesson.prefix}-${id}`;
    const texts = readWritings()[name];
    if (texts?.prompt !== prompt || texts.model !== model)
      lesson.errorAt(node, `“${id}”: lessons/draw.mjs has written no text for it`);
    const recordedTable = table(
      ['Cache', 'The model writes', 'Distinct tokens'],
      (texts?.rows ?? []).map(({ cache, text: writing, distinct }) => [cache, writing, distinct]),
    );
    recordedTable.data!.hProperties!.className = ['wide-table', 'recorded'];
    lesson.parts.writes.push({ id: name, model, prompt });
    const element = make('sink-write', { id, model, prompt }, [recordedTable]);
    replaceByFigure(node, [element], ['lesson-figure']);
  },
  deleted(node) {
    const file = join(picturesFolder, 'without_first.json');
    const { prompt, ...recordedTrials } = JSON.parse(readFileSync(file, 'utf8'));
    const { texts, trials } = readRecorded(recordedTrials as RecordedTrials);
    const rows = CONDITION_NAMES.map((name) => {
      const mean = meanOf(trials.map((trial) => trial[name].repeated));
      return [CONDITIONS[name].title, `${prompt} …${texts[name]}`, formatPercent(mean)];
    });
    const textsTable = table(['First token', 'The model writes', 'Repeated'], rows);
    replaceByFigure(node, [textsTable], ['lesson-figure']);
  },
  count(node, { figure = '' }) {
    replaceBy(node, make('p', { className: ['head-count'], dataFigure: figure, role: 'status' }));
  },
  costs(node, { models = '' }) {
    replaceByFigure(node, [costTable(models.split(/\s+/))]);
  },
  dots(node, { recipes = '', step = '', outcome = '' }) {
    replaceByFigure(node, dotsOf(recipes.split(/\s+/), Number(step), outcome));
  },
  runs(node, { groups = '' }) {
    replaceByFigure(node, runsOf(parseGroups(groups)));
  },
  claims(node, _, { hrefOf }) {
    replaceByFigure(node, claimsTables(hrefOf));
  },
  remedies(node, _, { hrefOf }) {
    replaceByFigure(node, remedyTable(hrefOf));
  },
  predict(node, { min, max, unit, choices, answer }, lesson) {
    const question = takeLabel(node);
    const words = choices ? choices.split('|') : undefined;
    if (words && !words.includes(answer ?? ''))
      lesson.errorAt(node, `the answer “${answer ?? ''}”: expected one of ${words.join(', ')}`);
    if (!choices && answer !== undefined)
      lesson.errorAt(node, 'an answer: expected none, the first number of the text below answers');
    if (!choices && !/dataAnswers/.test(JSON.stringify(node.children)))
      lesson.errorAt(
        node,
        'expected a number with a source in the answer to a question for a number',
      );
    const properties = choices
      ? { dataChoices: choices, dataAnswer: answer }
      : { dataMin: min, dataMax: max, dataUnit: unit };
    const content = [
      make('p', { className: ['predict-question'] }, [
        make('strong', {}, [text('Predict. ')]),
        ...question,
      ]),
      make('details', {}, [make('summary', {}, [text('Show the answer')]), ...node.children!]),
    ];
    replaceBy(node, make('section', { className: ['predict'], ...properties }, content));
  },
  exercise(node) {
    const content = [make('h2', {}, [text('Exercise')]), ...node.children!];
    replaceBy(node, make('section', { className: ['exercise'] }, content));
  },
  live(node, { figure = '', value = '' }, lesson) {
    const statedText = toString(node);
    lesson.parts.liveNumbers.push({
      figure: `${lesson.prefix}-${figure}`,
      value,
      stated: statedText,
    });
    const recordedText = lesson.valueIn(figure, value);
    if (recordedText === undefined)
      lesson.errorAt(
        node,
        `“${statedText}”: ${value} of the figure “${figure}” is unknown; node web/lessons/draw.mjs ${lesson.prefix}-${figure} measures it`,
      );
    else if (recordedText !== statedText)
      lesson.errorAt(
        node,
        `“${statedText}”: ${value} of the figure “${figure}” is ${recordedText}`,
      );
    if (lesson.normalizedFigures.has(figure) && WEIGHT_VALUES.includes(value))
      lesson.errorAt(
        node,
        `${value} is a mean of weights: expected a figure of weights, found “${figure}”, whose map shows shares (normalize="yes")`,
      );
    const properties = { dataFigure: figure, dataValue: value, dataAnswers: '' };
    replaceBy(node, make('output', properties, [text(statedText)]));
  },
  when(node, { figure = '', if: condition = '' }, lesson) {
    const isHidden = !isTrue(condition, (name) => lesson.valueIn(figure, name) ?? '–');
    const sentence = { figure: `${lesson.prefix}-${figure}`, condition, text: toString(node) };
    lesson.parts.conditionalSentences.push({ ...sentence, group: lesson.group });
    const properties = { className: ['when'], dataFigure: figure, dataIf: condition };
    replaceBy(node, make('span', { ...properties, hidden: isHidden }, node.children));
  },
  set(node) {
    replaceBy(node, make('span', {}, node.children!));
  },
  data(node, { of = '', as }, lesson) {
    const problem = numberProblem(toString(node), of, as);
    if (problem) lesson.errorAt(node, problem);
    replaceBy(node, make('span', { dataAnswers: '' }, node.children!));
  },
  paper(node, { of, as }, lesson) {
    const problem = of && numberProblem(toString(node), of, as);
    if (problem) lesson.errorAt(node, problem);
    replaceBy(node, make('span', {}, node.children!));
  },
};

/** Hands a directive to its handler once its name and its attributes are known. */
function handleDirective(node: Node, lesson: LessonContext): void {
  const name = node.name ?? '';
  const handle = Object.hasOwn(HANDLERS, name) && HANDLERS[name];
  if (!handle)
    return lesson.errorAt(node, `“:${name}”: expected one of ${Object.keys(HANDLERS).join(', ')}`);
  const allowedNames = ATTRIBUTES[name]!;
  const attributes = node.attributes ?? {};
  const unknownName = Object.keys(attributes).find((other) => !allowedNames.includes(other));
  if (unknownName !== undefined)
    return lesson.errorAt(
      node,
      `“${unknownName}”: expected ${allowedNames.length ? `one of ${allowedNames.join(', ')}` : 'no attribute'} of “:${name}”`,
    );
  try {
    handle(node, attributes, lesson);
  } catch (error) {
    lesson.errorAt(node, (error as Error).message);
  }
}

/** Leads a link to a page of the site, and checks the number of a lesson that it names. */
function checkLink(node: Node & { url: string }, lesson: LessonContext): void {
  if (node.type !== 'link') return;
  if (node.url.startsWith('#')) node.url = lesson.hrefOf(node.url);
  else if (/^[\w-]+$/.test(node.url)) node.url = `../${node.url}/index.html`;
  const [, statedNumber] = /^lesson (\d+)$/i.exec(toString(node)) ?? [];
  const linkedSlug = /^(?:\.\.\/)?([\w-]+)/.exec(node.url)?.[1] ?? '';
  if (statedNumber && statedNumber !== String(numberOf(linkedSlug)))
    lesson.errorAt(node, `“${toString(node)}”: “${linkedSlug}” is lesson ${numberOf(linkedSlug)}`);
}

/** Checks that numbers of a text have a source, and names of lessons a link. */
function checkText(node: Node & { value: string }, lesson: LessonContext): void {
  if (MEASUREMENT.test(node.value.replace(DEFINED_NUMBERS, '')))
    lesson.errorAt(node, `“${node.value.trim()}”: a measured number without a source`);
  if (/\blessons? \d/i.test(node.value))
    lesson.errorAt(
      node,
      `“${node.value.trim()}”: expected the number of a lesson to be a link to it`,
    );
}

/** Checks that a sentence with a figure's number says on which text it holds, where a reader can change the text. */
function checkParagraph(node: Node, lesson: LessonContext): void {
  for (const { text, figures } of sentencesOf(node))
    if (figures.some((name) => lesson.changingFigures.has(name)) && !TEXT_REFERENCE.test(text))
      lesson.errorAt(
        node,
        `“${text.trim()}”: expected “this text”, or a condition (:when) under which it is true`,
      );
}

/** Checks a node and those below it, and replaces directives among them. */
function visit(node: Node, isSourced: boolean, lesson: LessonContext): void {
  const { type, name = '' } = node;
  if ('url' in node) checkLink(node, lesson);
  if (type === 'text' && !isSourced) checkText(node, lesson);
  if (type === 'paragraph') checkParagraph(node, lesson);
  const isSource = type === 'link' || ['data', 'live', 'paper', 'set'].includes(name);
  (node.children ?? []).forEach((child, i, all) => {
    // Sentences of `:when` belong to one group if nothing but space is between them.
    const [last, gap] = [all[i - 2], all[i - 1]];
    const isSpace = gap?.type === 'text' && !gap.value.trim();
    if (child.name === 'when' && !(isSpace && last?.name === 'when')) lesson.group++;
    visit(child, isSourced || isSource, lesson);
  });
  if (type.endsWith('Directive')) handleDirective(node, lesson);
}

const directives = (slug: string, parts: LessonParts) => () => (tree: Root) => {
  const lesson = new LessonContext(slug, parts);
  for (const child of tree.children as Node[]) lesson.classifyFigures(child);
  for (const child of tree.children as Node[]) visit(child, false, lesson);
};

function headOf(tree: Root): { title: string; description: string } {
  const [title, description] = tree.children;
  if (title?.type !== 'heading' || description?.type !== 'paragraph')
    throw new Error('expected a heading and a paragraph that describes the lesson at the top.');
  return { title: toString(title), description: toString(description as Paragraph) };
}

/** Estimates the minutes that a lesson takes to read, without its folded tables. */
export function minutesOf(html: string): number {
  const visibleText = html
    .replace(/<(?:svg|math|sink-row|sink-write)\b[^]*?<\/(?:svg|math|sink-row|sink-write)>/g, ' ')
    .replace(/<details class="[^"]*\bfolded\b[^]*?<\/summary>[^]*?<\/details>/g, ' ')
    .replace(/<[^>]*>/g, ' ');
  const wordCount = visibleText.split(/\s+/).filter((word) => /\w/.test(word)).length;
  return Math.round(wordCount / WORDS_A_MINUTE) + 1;
}

/** @param name the name of its file without the ending: `1-what-is-an-attention-sink` */
export function lessonOf(name: string, source: string): Lesson {
  const number = numberOf(name);
  const parts: LessonParts = {
    ...{ figures: [], writes: [], links: [], liveNumbers: [], conditionalSentences: [] },
    problems: [],
  };
  const processor = unified()
    .use(remarkParse)
    .use(remarkDirective)
    .use(remarkMath)
    .use(remarkGfm)
    .use(directives(name, parts))
    .use(linkTerms)
    .use(remarkRehype)
    .use(rehypeKatex, { output: 'mathml' })
    .use(rehypeStringify);
  const tree = processor.parse(source);
  const head = headOf(tree);
  tree.children.splice(0, 2);
  const wordCount = source
    .replace(/^::\w+.*$/gm, '')
    .replace(/^## Sources[^]*$/m, '')
    .replace(/\{[^{}]*\}|\]\([^)]*\)/g, '')
    .split(/\s+/)
    .filter((word) => /\w/.test(word)).length;
  const html = processor.stringify(processor.runSync(tree));
  return {
    ...{ slug: name, number, wordCount, minutes: minutesOf(html) },
    ...{ ...head, html, ...parts },
  };
}
