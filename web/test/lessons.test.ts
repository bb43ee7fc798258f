import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { claims, factAt, modelsOfZoo, numberProblem } from '../ship/facts';
import { lessons, pages, readLesson } from '../ship/lessons';
import { seedDots } from '../ship/dots';
import { parseGroups, runsOf } from '../ship/runs';
import { remedyTable } from '../ship/remedies';
import {
  ATTRIBUTES,
  lessonOf,
  minutesOf,
  readPictures,
  staleWords,
  readWritings,
} from '../ship/markdown';
import { anchorOf } from '../ship/terms';
import { REMEDIES, twinWords } from '../src/remedies';
import { attributeNames, propertyNames } from '../src/embed/attributes';
import { parseHash } from '../src/ask/state';
import { parseSubject } from '../src/ask/subject';
import { headScores, formattedValue, valueFormatters, type Run } from '../src/learn/values';
import {
  attend,
  defaultRow,
  formulaOf,
  forms,
  rowWords,
  type MathNode,
  type Row,
} from '../src/learn/rows';
import { TERMS } from '../src/page/glossary';
import { rooms } from '../src/rooms/index';
import { views } from '../src/views/index';

const course = lessons();
const recordings = new Set(
  readdirSync(`${import.meta.dirname}/../../models/recordings`).map((file) => `recording:${file}`),
);
const ids = new Set(modelsOfZoo().map(({ id }) => id));

function troublesOf(hash: string): string[] {
  const { state, problems } = parseHash(hash);
  const parameters = new URLSearchParams(hash.replace(/^#/, ''));
  const names = (parameters.get('shown')?.match(/[^,(]+(?:\([^)]*\))?/g) ?? []).map(
    (text) => parseSubject(text)?.id ?? '',
  );
  return [
    ...problems,
    ...names
      .filter((id) => !ids.has(id) && !id.startsWith('hub:') && !recordings.has(id))
      .map((id) => `no model ${id}`),
    ...(parameters.has('view') &&
    ![...views.map(({ name }) => name), 'lab', 'experiment'].includes(state.view)
      ? [`no view ${state.view}`]
      : []),
    ...(parameters.has('room') && !rooms.some(({ name }) => name === state.room)
      ? [`no room ${state.room}`]
      : []),
  ];
}

describe('the course', () => {
  it('has eight lessons of 400 to 700 words, each with its parts', () => {
    expect(course.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    for (const { slug, wordCount, figures, html, description, problems } of course) {
      expect(problems, slug).toEqual([]);
      expect(wordCount, slug).toBeGreaterThanOrEqual(400);
      expect(wordCount, slug).toBeLessThanOrEqual(700);
      const rows = html.match(/<sink-row/g)?.length ?? 0;
      expect(figures.length + rows, slug).toBeGreaterThanOrEqual(3);
      const operatedCount = figures.filter(({ state }) => state.controls).length + rows;
      expect(operatedCount, slug).toBeGreaterThanOrEqual(2);
      for (const part of ['class="predict"', 'class="exercise"', '>Remember<', '>Sources<'])
        expect(html, slug).toContain(part);
      expect(description.length, slug).toBeLessThan(160);
    }
  });

  it('keeps the addresses of the first edition', () => {
    const slugs = course.map(({ slug }) => slug);
    for (const slug of [
      '1-what-is-an-attention-sink',
      '2-why-does-softmax-need-somewhere-to-look',
      '3-how-does-the-sink-emerge',
      '4-what-breaks-without-the-sink',
      '5-how-do-we-get-rid-of-it',
      '6-how-sure-are-we',
    ])
      expect(slugs).toContain(slug);
  });

  it('refers only to existing states, in figures, links and claims', () => {
    for (const { slug, figures, links } of course) {
      for (const { id, state } of figures)
        expect(troublesOf(new URLSearchParams(namesOf(state)).toString()), id).toEqual([]);
      for (const link of links) expect(troublesOf(link), `${slug}: ${link}`).toEqual([]);
    }
    expect(troublesOf('shown=unknown&view=none&room=cellar&eps=much')).toHaveLength(4);
  });

  it('has one picture for each figure in the state that the lesson names', () => {
    const pictures = readPictures();
    const figures = course.flatMap((lesson) => lesson.figures);
    expect(
      Object.keys(pictures).sort(),
      'node web/lessons/draw.mjs draws the missing pictures',
    ).toEqual(figures.map(({ id }) => id).sort());
    for (const { id, state } of figures) expect(pictures[id]!.state, id).toEqual(state);
    for (const { figure, value } of course.flatMap(({ liveNumbers }) => liveNumbers))
      if (pictures[figure]) expect(valueFormatters).toHaveProperty(value);
      else expect(readWritings()[figure]!.values, figure).toHaveProperty(value);
  });

  it('avoids the words dark and light: on a dark page a large weight is light', () => {
    for (const { slug, html } of course) {
      // What a model has written may have any word.
      const ownWords = html.replace(/<td>[^<]*<\/td>|<[^>]+>/g, '');
      expect(ownWords, slug).not.toMatch(/\b(dark|light|bright)(er|est)?\b/i);
    }
  });

  it('has pictures with drawn marks and without truncated numbers', () => {
    for (const { id } of course.flatMap(({ figures }) => figures)) {
      const file = join(import.meta.dirname, '../lessons/pictures', `${id}.svg`);
      const svg = readFileSync(file, 'utf8');
      expect(svg.match(/<(path|rect|circle|line)\b/g)!.length, id).toBeGreaterThan(7);
      expect(svg.match(/>\d+…</g), id).toBeNull();
      // An outline in the color of the paper that lies above its letters would hide them.
      expect(svg.match(/<text (?![^>]*paint-order)[^>]*stroke="rgb[^>]*>/g), id).toBeNull();
      // Lit writes comments with a number that differs on each run, so the file would change as well.
      expect(svg, id).not.toContain('<!--');
    }
  });

  it('rejects a picture that another version of the page drew', () => {
    const { version } = JSON.parse(
      readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'),
    ) as { version: string };
    expect(staleWords('1-map', `<text>Sinkscope ${version}</text>`)).toBeUndefined();
    expect(staleWords('1-map', '<text>Sinkscope 0.0.9</text>')).toMatch(
      /1-map was drawn by version 0\.0\.9, expected \d/,
    );
    expect(staleWords('1-map', '<svg></svg>')).toMatch(/by version unknown/);
    for (const { problems, slug } of course) expect(problems, slug).toEqual([]);
  });

  it('rejects a number that differs from its table, has no source, or has an unknown format', () => {
    const problemsOf = (body: string) => lessonOf('9-test', `# A\n\nB.\n\n${body}\n`).problems;
    const place = 'zoo softmax measured sink_1';
    expect(problemsOf(`It is :data[60%]{of="${place}"}.`)).toEqual([]);
    expect(problemsOf(`It is :data[61%]{of="${place}"}.`)).toEqual([
      `line 5: “61%”: ${place} is 60`,
    ]);
    expect(problemsOf('It is 60%.')).toMatchSnapshot();
    expect(problemsOf('It rises by 0.2 nats.')).toHaveLength(1);
    expect(problemsOf('Rows sum to 100%, with 95% intervals.')).toEqual([]);
    expect(problemsOf('It is :unknown[this]{}.')[0]).toMatch(/“:unknown”: expected one of/);
    expect(problemsOf('It is :live[1%]{figure="none" value="alpha"}.')).toMatchSnapshot();
    const shares = '::figure[C.]{#map view="attention" normalize="yes"}';
    expect(problemsOf(`${shares}\n\nIt is :live[1%]{figure="map" value="alpha"}.`)).toContainEqual(
      expect.stringMatching(
        /^line 7: alpha is a mean of weights: expected a figure of weights, found “map”/,
      ),
    );
    expect(problemsOf('::row{beside="softmin"}')[0]).toMatch(/The form “softmin”/);
    expect(problemsOf('::row{bias="keys"}')[0]).toMatch(/“keys”: expected one of none, logit, key/);
    expect(problemsOf('::row{biass="key"}')[0]).toMatch(
      /“biass”: expected one of .*bias, gate of “:row”/,
    );
    expect(() => factAt('zoo softmax measured')).toThrow(/expected a number/);
    expect(numberProblem('-0.2', 'zoo sigmoid differs alpha 0')).toBeUndefined();
    expect(numberProblem('42%', 'zoo sigmoid differs alpha 0', 'fall')).toBeDefined();
  });

  it('names its file where it is refused as a whole', () => {
    const quotes = `# A\n\nB.\n\n${'>'.repeat(5000)} C.`;
    for (const source of ['B.', quotes])
      expect(() => readLesson('9-test', source)).toThrowErrorMatchingSnapshot();
  });

  it('rejects a number about a changeable text in a sentence without a condition', () => {
    const lessonWith = (body: string) =>
      lessonOf(
        '1-what-is-an-attention-sink',
        `# A\n\nB.\n\n::figure[C.]{#map view="attention" controls="text"}\n\n${body}\n`,
      );
    const liveNumber = ':live[93%]{figure="map" value="alpha"}';
    expect(lessonWith(`The head gives it ${liveNumber}.`).problems).toMatchSnapshot();
    expect(lessonWith(`On this text, the head gives it ${liveNumber}.`).problems).toEqual([]);
    expect(
      lessonWith(`On this text it is so. The head gives it ${liveNumber}.`).problems,
    ).toHaveLength(1);
    // A reader also changes the prompt that a model continues.
    const writingProblems = (sentence: string) =>
      lessonOf(
        '4-what-breaks-without-the-sink',
        `# A\n\nB.\n\n::write[C.]{#write model="softmax" prompt="D"}\n\n${sentence}\n`,
      ).problems.filter((problem) => problem.includes('expected “this text”'));
    const liveShare = ':live[65%]{figure="write" value="last"}';
    expect(writingProblems(`Of its tokens ${liveShare} are distinct.`)).toHaveLength(1);
    expect(writingProblems(`With this lesson’s prompt, ${liveShare} are distinct.`)).toEqual([]);
    const conditional = (condition: string, text = `It gives ${liveNumber}.`) =>
      lessonWith(`:when[${text}]{figure="map" if="${condition}"}`);
    expect(conditional('alpha > 2 uniform').problems).toEqual([]);
    expect(conditional('alpha > 2 uniform').html).toContain('data-if="alpha > 2 uniform"');
    expect(conditional('alpha > 2 uniform').html).not.toContain(' hidden');
    expect(conditional('alpha < uniform').html).toContain(' hidden');
    expect(conditional('alpha').problems[0]).toMatch(/two values with < or >/);
    // Adjacent cases form a group; another sentence between them starts a new one.
    const groupsOf = (body: string) =>
      lessonWith(body).conditionalSentences.map(({ group }) => group);
    const sentence = ':when[A.]{figure="map" if="alpha > 1"}';
    expect(groupsOf(`${sentence} ${sentence}`)).toEqual([1, 1]);
    expect(groupsOf(`${sentence} And so. ${sentence}`)).toEqual([1, 2]);
    expect(groupsOf(`${sentence} **And so.** ${sentence}`)).toEqual([1, 2]);
    expect(groupsOf(`${sentence} ${sentence} **And so.** ${sentence}`)).toEqual([1, 1, 2]);
  });

  it('rejects a lesson’s number that differs from its source', () => {
    const problemsOf = (body: string) => lessonOf('9-test', `# A\n\nB.\n\n${body}\n`).problems;
    expect(problemsOf('See [lesson 8](6-how-sure-are-we).')).toEqual([]);
    expect(problemsOf('See [lesson 6](6-how-sure-are-we).')).toMatchSnapshot();
    expect(problemsOf('Lesson 6 asks.')[0]).toMatch(/expected the number of a lesson to be a link/);
  });

  it('asks only questions whose answer it can judge', () => {
    const problemsOf = (data: string, body: string) =>
      lessonOf('9-test', `# A\n\nB.\n\n:::predict[C?]{${data}}\n${body}\n:::\n`).problems;
    const number = ':data[60%]{of="zoo softmax measured sink_1"}';
    expect(problemsOf('min=0 max=100', `${number} of them.`)).toEqual([]);
    expect(problemsOf('min=0 max=100', 'Many.')[0]).toMatch(/expected a number with a source/);
    expect(problemsOf('choices="A|B" answer="B"', 'B.')).toEqual([]);
    expect(problemsOf('choices="A|B" answer="C"', 'B.')[0]).toMatch(/“C”: expected one of A, B/);
    expect(problemsOf('choices="A|B"', 'B.')).toHaveLength(1);
  });

  it('takes correlations and pairs over all seeds of two recipes', () => {
    // numpy.corrcoef of the onsets and alphas of models/zoo/*/seeds, and scipy.stats.t over five pairs.
    expect(factAt('onsets softmax 4000 correlation')).toBeCloseTo(-0.1273, 4);
    expect(factAt('onsets lr-1e-3 4000 correlation')).toBeCloseTo(-0.0443, 4);
    expect(factAt('onsets lr-1e-3 4000 seeds')).toBe(8);
    expect(factAt('pairs lr-1e-3 4000 seeds')).toBe(5);
    expect(factAt('pairs lr-1e-3 4000 mean')).toBeCloseTo(-0.1208, 4);
    expect(factAt('pairs lr-1e-3 4000 low')).toBeCloseTo(-0.211, 3);
    expect(factAt('pairs lr-1e-3 4000 high')).toBeCloseTo(-0.0306, 3);
  });

  it('links each term of the glossary at its first use in a lesson', () => {
    const glossary = pages()['learn/glossary/index.html']!;
    for (const { slug, html } of course) {
      const terms = [...html.matchAll(/<a class="term" href="([^"]+)"[^>]*>([^<]+)</g)];
      const anchors = terms.map(([, href]) => href!);
      expect(new Set(anchors).size, slug).toBe(anchors.length);
      for (const href of anchors)
        expect(glossary, slug).toContain(`<dt id="${href.split('#')[1]}">`);
      // The prose, without links, titles and the contents of figures.
      const prose = html
        .replace(/<(table|svg|math|sink-\w+|h2|summary|code|a)\b[^]*?<\/\1>/g, '·')
        .replace(/<[^>]*>/g, ' ');
      for (const { term, pattern } of TERMS) {
        const isLinked = anchors.includes(`../glossary/index.html#${anchorOf(term)}`);
        const match = RegExp(`(?<![\\w“])(?:${pattern.source})(?![\\w”₁])`, 'u').exec(prose);
        if (match) expect(isLinked, `${slug}: ${term}, “${match[0]}”`).toBe(true);
      }
    }
  });

  it('defines in its glossary the terms that readers asked about', () => {
    const names = TERMS.map(({ term }) => term).join(' | ');
    for (const term of [
      ...['attention', 'query', 'key', 'value', 'logit', 'norm', 'residual stream', 'ablation'],
      ...['loss', 'nat', 'perplexity', 'learning rate', 'weight decay', 'checkpoint', 'rotary'],
      ...['weight', 'parameter', 'KV cache', 'softmax', 'uniform attention', 'value drain'],
    ])
      expect(names).toContain(term);
  });

  it('counts the visible words, without folded tables', () => {
    const words = 'word '.repeat(220);
    expect(minutesOf(`<p>${words}</p>`)).toBe(3);
    expect(minutesOf(`<table><td>${words}</td></table>`)).toBe(3);
    expect(minutesOf(`<details class="folded"><summary>A</summary>${words}</details>`)).toBe(1);
    const lastLesson = course.at(-1)!;
    expect(lastLesson.html).toContain('<details class="folded"><summary class="claims-row">');
    expect(lastLesson.minutes).toBeLessThan(15);
    const unfolded = lastLesson.html.replace(/<details class="folded">[^]*?<\/details>/g, '');
    for (const { claim } of claims()) expect(unfolded).not.toContain(claim.slice(0, 40));
  });

  it('rejects unknown attributes of a directive', () => {
    const problemsOf = (body: string) => lessonOf('9-test', `# A\n\nB.\n\n${body}\n`).problems;
    for (const name of ['onload', 'onclick', 'style', 'srcdoc', 'class', 'href', 'constructor'])
      for (const sign of ['::figure', '::row', '::write', ':::predict', ':set[1%]', ':paper[1%]']) {
        const end = sign.startsWith(':::') ? '\n:::' : '';
        const [problem] = problemsOf(`${sign}{${name}="alert(1)"}${end}`);
        expect(problem, `${sign} ${name}`).toMatch(RegExp(`^line 5: “${name}”: expected `));
      }
    expect(problemsOf('::figure{.narrow view="heads"}')[0]).toMatch(/“class”: expected one of id/);
    expect(problemsOf('::claims{id="a"}')).toMatchSnapshot();
    const knownNames = [...attributeNames, 'id'];
    expect(ATTRIBUTES.figure!.filter((name) => !knownNames.includes(name))).toEqual([]);
  });

  it('rejects names that every object has', () => {
    const problemsOf = (body: string) => lessonOf('9-test', `# A\n\nB.\n\n${body}\n`).problems;
    for (const name of ['constructor', 'toString', 'hasOwnProperty']) {
      expect(problemsOf(`::${name}{}`)[0]).toMatch(RegExp(`“:${name}”: expected one of figure`));
      expect(() => factAt(`${name} a`)).toThrow(/found undefined/);
      expect(() => factAt(`zoo softmax ${name} length`)).toThrow(/found undefined/);
      expect(numberProblem('1', 'zoo softmax measured sink_1', name)).toMatch(/expected one of/);
      expect(problemsOf(`::dots{recipes="softmax" step="4000" outcome="${name}"}`)[0]).toMatch(
        /expected one of alpha/,
      );
      expect(problemsOf(`:live[1%]{figure="map" value="${name}"}`)[0]).toMatch(/is unknown/);
    }
  });

  it('draws each run of a recipe of protocol B, and names the recipes that were not trained', () => {
    const runs = {
      one: { seeds: [1, 2], alpha: [0.1, 0.3], loss: [3.5, 3.7] },
      two: { seeds: [1], alpha: [0], loss: [3.6] },
    };
    const drawnJson = JSON.stringify(runsOf(parseGroups('First: one three | Second: two'), runs));
    const countOf = (className: string) =>
      drawnJson.split(`"className":["${className}"]`).length - 1;
    expect([countOf('run'), countOf('mean'), countOf('run-1'), countOf('run-2')]).toEqual([
      3, 2, 1, 1,
    ]);
    for (const words of [
      '0.20 (0.10 to 0.30)',
      '3.60 (3.50 to 3.70)',
      '3 runs. Not trained yet: three.',
    ])
      expect(drawnJson).toContain(words);
    expect(() => runsOf(parseGroups('Third: three'), runs)).toThrowErrorMatchingSnapshot();
    // Positions are linear in the values: α₁ 0.1, 0.3 and 0, and losses 3.5, 3.7 and 3.6.
    const dotPlaces = (name: string) =>
      [...drawnJson.matchAll(/"className":\["run"\],"cx":"([\d.]+)","cy":"([\d.]+)"/g)].map(
        (match) => Number(match[name === 'cx' ? 1 : 2]),
      );
    const [a, b, c] = dotPlaces('cy') as [number, number, number];
    expect((c - b) / (c - a)).toBeCloseTo(3, 1);
    const [d, e, f] = dotPlaces('cx') as [number, number, number];
    expect((e - d) / (f - d)).toBeCloseTo(2, 1);
  });

  it('has a dot for each seed at the value of its log, and rejects a missing log', () => {
    const log = (id: string, seed: number) =>
      JSON.parse(
        readFileSync(`${import.meta.dirname}/../../models/zoo/${id}/seeds/${seed}.json`, 'utf8'),
      ).points.find(({ step }: { step: number }) => step === 4000).alpha as number;
    const recipes = ['no-bos', 'softmax'];
    const [firstDots, secondDots] = seedDots(recipes, 4000, 'alpha');
    expect([firstDots!.title, secondDots!.title]).toEqual(['Softmax model', 'No BOS']);
    expect(firstDots!.values).toEqual([1, 2, 3, 4, 5].map((seed) => log('softmax', seed)));
    expect(secondDots!.values).toEqual([1, 2, 3].map((seed) => log('no-bos', seed)));
    expect(firstDots!.mean).toBeCloseTo(factAt('long softmax 4000 alpha mean'), 12);
    expect(() => seedDots(['lr-6e-3'], 4000, 'alpha')).toThrow(/two seeds or more/);
    const lessonWith = (body: string) => lessonOf('9-test', `# A\n\nB.\n\n${body}\n`);
    const dots = '::dots{recipes="softmax no-bos" step="4000" outcome="alpha"}';
    expect(lessonWith(dots).html.match(/<circle/g)).toHaveLength(8);
    expect(lessonWith(dots.replace('alpha', 'beta')).problems[0]).toMatch(
      /“beta”: expected one of alpha/,
    );
  });

  it('states about the models of lesson 5 what their intervals show', () => {
    const names = ['sigmoid', 'softmax1', 'sink-logit', 'key-bias', 'gated'];
    const cards = modelsOfZoo().filter(({ id }) => names.includes(id));
    expect(cards).toHaveLength(names.length);
    // The lesson says that all these models have less sink than softmax, that their losses differ by a few hundredths
    // of a nat, and that the gated model has the lowest loss.
    for (const [, , high] of cards.map(({ differs }) => differs!.alpha))
      expect(high).toBeLessThan(0);
    for (const [mean] of cards.map(({ differs }) => differs!.loss))
      expect(Math.abs(mean)).toBeLessThan(0.06);
    const losses = cards.map(({ id, differs }) => [differs!.loss[0], id] as const);
    expect(losses.sort((a, b) => a[0] - b[0])[0]![1]).toBe('gated');
  });

  it('shows every claim in lesson 6, with the symbols of the course', () => {
    const { html } = course.at(-1)!;
    const symbols = { Sink_1: 'Sink₁', eps: 'ε', '&': '&#x26;', '<': '&#x3C;' };
    for (const { claim } of claims())
      expect(html).toContain(
        claim.replace(/Sink_1|\beps\b|[&<]/g, (plain) => symbols[plain as keyof typeof symbols]),
      );
    expect(html.replace(/<[^>]*>/g, ' ')).not.toMatch(/Sink_\d|\beps\b|\balpha\b|`/);
  });

  it('has pages with a title and a link to the next lesson', () => {
    const writtenPages = pages();
    for (const { slug, title, number } of course) {
      const html = writtenPages[`learn/${slug}/index.html`]!;
      expect(html).toContain(`<title>${title} · Sinkscope</title>`);
      const nextLesson = course.find((lesson) => lesson.number === number + 1);
      if (nextLesson) expect(html).toContain(`href="../${nextLesson.slug}/index.html"`);
      for (const [, target] of html.matchAll(/href="\.\.\/([\w-]+)\/index\.html"/g))
        expect(writtenPages, `${slug} to ${target}`).toHaveProperty([`learn/${target}/index.html`]);
    }
  });

  it('has each term of the page in its glossary', () => {
    const html = pages()['learn/glossary/index.html']!;
    for (const { term, pattern } of TERMS) {
      expect(html).toContain(`<dt id="${anchorOf(term)}">${term}</dt>`);
      expect(term, 'the name is one that sentences have').toMatch(pattern);
    }
  });
});

function namesOf(state: Readonly<Record<string, string>>): Record<string, string> {
  const nameOf = (attribute: string) => propertyNames[attributeNames.indexOf(attribute)]!;
  return Object.fromEntries(Object.entries(state).map(([name, value]) => [nameOf(name), value]));
}

/** Returns a run of two layers with two heads each, whose maps of three tokens have the given α₁. */
const runWith = (alphas: readonly number[]): Run['results'][number] => ({
  subject: 'a',
  T: 3,
  eps: 0.3,
  tokens: ['<s>', 'a', 'b'],
  numbers: [
    {
      name: 'weight',
      axes: ['layer', 'head', 'query', 'key'],
      shape: [2, 2, 3, 3],
      // Row 0 has 1 on the first token; rows 1 and 2 share the rest of α₁ between them.
      data: alphas.flatMap((alpha) => {
        const rest = (3 * alpha - 1) / 2;
        return [1, 0, 0, rest, 1 - rest, 0, rest, 1 - rest, 0];
      }),
    },
  ],
});

describe('remedies of production models', () => {
  const readText = (path: string) => readFileSync(join(import.meta.dirname, '../..', path), 'utf8');
  const families = REMEDIES.flatMap((remedy) => remedy.families);

  it('have a twin for each remedy that the core computes', () => {
    const index = JSON.parse(readText('models/zoo/index.json')) as {
      id: string;
      operation: string;
    }[];
    const operationOf = (id: string) => index.find((card) => card.id === id)?.operation;
    expect(REMEDIES.map(({ twin }) => operationOf(twin))).toMatchSnapshot();
    const readConfig = (id: string) => readText(`models/zoo/${id}/config.json`);
    expect(readConfig('gated')).toContain('"gate"');
    expect(readConfig('softmax')).not.toContain('"gate"');
    expect(readText('models/zoo/sink-token/card.md')).toContain('in front of every text: `<sink>`');
  });

  it('describe a twin by the index of the zoo, and reject an unknown twin', () => {
    const zoo = [
      { id: 'softmax', measured: { sink_1: 60.4 } },
      {
        id: 'tried',
        measured: { sink_1: 2 },
        differs: { seeds: 3, alpha: [-0.4, -0.52, 0.031], loss: [0, 0, 0] } as const,
        paper: { says: 'less', where: 'A 2025, table 4' },
      },
      { id: 'once', measured: { sink_1: 11.7 }, differs: null, paper: { where: 'B' } },
    ];
    const wordsOf = (twin: string) => twinWords({ ...REMEDIES[0]!, twin }, zoo);
    expect([wordsOf('tried'), wordsOf('once')]).toMatchSnapshot();
    expect(() => wordsOf('unknown')).toThrowErrorMatchingSnapshot();
  });

  it('link to existing states, and to each source over https', () => {
    const states: string[] = [];
    remedyTable((state) => (states.push(state), `#${state}`));
    expect(states.map((state) => parseHash(state).state.shown)).toEqual(
      REMEDIES.flatMap((remedy) => [
        ['softmax', remedy.twin],
        ...remedy.families.flatMap(({ checkpoint, opens }) =>
          opens ? [[`hub:${checkpoint as string}`]] : [],
        ),
      ]),
    );
    for (const state of states) expect(troublesOf(state), state).toEqual([]);
    for (const { source } of families) {
      expect(new URL(source.url).protocol).toBe('https:');
      expect(source.title).not.toBe('');
    }
  });

  it('link to the families that the page opens', () => {
    const familyText = readText('core/model/families/family.c');
    const publishedFamilies = families.filter(({ family }) => family);
    // A family that the page learns to read gets a link that opens it there, or a place in this list and in
    // RECORDER_WORDS.
    const tooLarge = ['gpt_oss', 'granite_swa', 'mimo_v2_flash', 'qwen3_next'];
    for (const { family, opens = false } of publishedFamilies)
      expect(opens || tooLarge.includes(family!), family).toBe(familyText.includes(`{"${family}"`));
  });
});

describe('numbers of a run in a text', () => {
  it('count the heads above the threshold, by hand', () => {
    const result = runWith([0.4, 0.5, 0.9, 0.35]);
    expect(headScores(result).map(({ alpha }) => alpha.toFixed(2))).toMatchSnapshot();
    expect(valueFormatters.count!([result])).toBe('4');
    expect(valueFormatters.count!([{ ...result, eps: 0.45 }])).toBe('2');
    expect(valueFormatters.share!([{ ...result, eps: 0.45 }])).toBe('50%');
    // (1 + 1/2 + 1/3) / 3
    expect(valueFormatters.uniform!([result])).toBe('61%');
  });

  const data = (name: string, shape: number[], ...values: number[]) => ({
    ...{ name, shape, data: values },
    axes: shape.map(() => ''),
  });
  const formatted = (name: string, ...results: ReturnType<typeof data>[][]) =>
    valueFormatters[name]!(results.map((numbers) => ({ ...runWith([]), numbers })));

  it('come from the figure that the text names', () => {
    const scores = [data('alpha_1', [2, 2], 0.125, 0.5, 0.75, 0.25)];
    expect(headScores({ ...runWith([]), numbers: scores })).toEqual([
      { layer: 0, head: 0, alpha: 0.125 },
      { layer: 0, head: 1, alpha: 0.5 },
      { layer: 1, head: 0, alpha: 0.75 },
      { layer: 1, head: 1, alpha: 0.25 },
    ]);
    expect([
      formatted('heads', scores),
      formatted('count', scores),
      formatted('share', scores),
    ]).toEqual(['4', '2', '50%']);
    expect(formatted('share', [...scores, data('sink_1', [], 0.125)])).toBe('13%');
    expect(formatted('count', [data('alpha_1', [1, 2], 0.3, 0.31)])).toBe('1');
    expect(formatted('tokens', [])).toBe('3');
    const map = data('weight', [3, 3], 1, 0, 0, 0.5, 0.5, 0, 0.25, 0.25, 0.5);
    expect([
      formatted('alpha', [map]),
      formatted('second_alpha', [], [map]),
      formatted('alpha', scores),
    ]).toEqual(['58%', '58%', '–']);
    const maps = data('weight', [1, 3, 3], 1, 0, 0, 0.5, 0.5, 0, 0.25, 0.25, 0.5);
    expect([
      formatted('second_key', [map]),
      formatted('alpha', [maps]),
      formatted('second_key', [maps]),
    ]).toEqual([...['38%', '–', '–']]);
    // The first key of the strongest head, which is the second.
    const alpha = data('alpha', [1, 2, 3], 0.25, 0, 0, 0.5, 0.9, 0);
    const contributions = data('contribution_out_at', [1, 2, 3], 0.75, 0, 0, 0.125, 0.9, 0);
    expect([
      formatted('gets', [alpha, contributions]),
      formatted('gives', [alpha, contributions]),
    ]).toEqual(['50%', '13%']);
    // The norm of the head that gives the first token most, and the mean of the others.
    const norms = data('output_norm', [1, 3], 4, 1.5, 5);
    const outputs = [norms, data('alpha_1', [1, 3], 0.25, 0.75, 0.5)];
    expect([formatted('output', outputs), formatted('other_outputs', outputs)]).toMatchSnapshot();
    const shares = data('sink_1_by_eps', [101], ...Array.from({ length: 101 }, (_, i) => i / 100));
    expect(['at_10', 'at_30', 'at_50'].map((name) => formatted(name, [shares]))).toMatchSnapshot();
    const sums = data('row_mass', [3], 0.25, 0.5, 0.75);
    expect([
      formatted('row_sum', [sums]),
      formatted('second_row_sum', [], [sums]),
    ]).toMatchSnapshot();
    expect([
      formatted('bias', [data('sink_bias', [], 0.25)]),
      formatted('gate', [data('gate_mean', [2], 0.5, 0.25)]),
    ]).toEqual(['25%', '0.38']);
    const loss = (...losses: number[]) => [data('loss_at', [3], NaN, ...losses)];
    expect(formatted('rise', loss(1, 2), loss(2, 2.25))).toBe('0.63');
    expect(formatted('rise', loss(2, 3), loss(1, 3))).toBe('−0.50');
    expect(formatted('second_rise', loss(1, 1), loss(9, 9), loss(1, 2))).toBe('0.50');
    expect(formatted('rise', loss(1, 1))).toBe('–');
  });

  it('are a dash, empty or NaN without a run, and a dash for an unknown name', () => {
    for (const format of Object.values(valueFormatters)) expect(format([])).toMatch(/^(–|NaN)?$/);
    for (const name of ['constructor', 'toString', 'none'])
      expect(formattedValue(name, [])).toBe('–');
    expect(formattedValue('tokens', [{ ...runWith([]), T: 7 }])).toBe('7');
  });
});

describe('a row of three scores', () => {
  const attendWith = (set: Partial<Row> = {}) => attend({ ...defaultRow, ...set });
  const totalOf = (set: Partial<Row> = {}) => attendWith(set).weights.reduce((a, b) => a + b, 0);
  const withBiasKey = { bias: 'key' } as const;

  it('has the weights that PyTorch computes', () => {
    // torch.softmax(torch.tensor([1., 0., -1.]), 0), the same with a fourth score of 0 (softmax1) or 1 (sink logit), and torch.sigmoid
    const expectNear = (set: Partial<Row>, expected: readonly number[]) =>
      attendWith(set).weights.forEach((weight, i) => expect(weight).toBeCloseTo(expected[i]!, 6));
    expectNear({}, [0.66524094, 0.24472848, 0.09003057]);
    expectNear(forms.softmax1!.settings, [0.53444666, 0.19661194, 0.07232949]);
    expectNear({ normalizer: 'sigmoid' }, [0.7310586, 0.5, 0.26894143]);
    expectNear({ bias: 'logit', s: 1 }, [0.39948627, 0.14696279, 0.05406459]);
    expectNear({ normalizer: 'none' }, [1, 0, -1]);
    // torch.sigmoid(torch.tensor(1.)), and 0.7310586 * 0.1 + 0.5 * 1 + 0.26894143 * 0.8 + 0.7310586 * 0.5
    const sigmoid = attendWith({ ...withBiasKey, normalizer: 'sigmoid' });
    expect(sigmoid.extraWeight).toBeCloseTo(0.7310586, 6);
    expect(sigmoid.output).toBeCloseTo(1.1537883, 6);
    expect(attendWith({ ...withBiasKey, normalizer: 'none', k: -2, v: 1 }).output).toBeCloseTo(
      0.1 - 0.8 - 2,
      12,
    );
  });

  it('sums to 1, with the share for no token, under softmax only', () => {
    for (const bias of ['none', 'logit', 'key'] as const)
      expect(totalOf({ bias }) + attendWith({ bias }).extraWeight, bias).toBeCloseTo(1, 12);
    const scores = [-6, -6, -6];
    expect(totalOf({ scores })).toBeCloseTo(1, 12);
    expect(totalOf({ scores, normalizer: 'sigmoid' })).toBeLessThan(0.01);
    const gatedRow = attendWith({ gate: 'on', g: 0.25 });
    expect(gatedRow.weights).toEqual(attendWith().weights);
    expect(gatedRow.output).toBeCloseTo(0.25 * attendWith().output, 12);
  });

  it('shows that softmax1 is a key bias with k = 0 and v = 0', () => {
    const wordsOf = (set: Partial<Row>) => rowWords({ ...defaultRow, ...set }, ['softmax1']);
    expect(wordsOf(withBiasKey)).toMatch(/^The three weights sum to \d+%, \d+% goes to no token/);
    const sameKey = { ...withBiasKey, k: 0, v: 0 };
    expect(attendWith(sameKey)).toEqual(attendWith(forms.softmax1!.settings));
    expect(wordsOf(sameKey)).toMatch(/softmax₁ is a key bias with k = 0 and v = 0/);
    expect(wordsOf({ ...sameKey, v: 0.5 })).not.toMatch(/These are/);
    expect(wordsOf({ ...sameKey, k: 2 })).toMatch(/a sink logit is a key bias with v = 0/);
    expect(wordsOf({ bias: 'logit', s: 0 })).toMatch(/softmax₁ is a sink logit of 0/);
    expect(wordsOf({ bias: 'logit', s: 2, k: 2 })).not.toMatch(/These are/);
    expect(wordsOf({ bias: 'none', s: 2, k: 2 })).not.toMatch(/These are/);
    expect(wordsOf({ bias: 'logit', s: 0, normalizer: 'sigmoid' })).toMatch(/changes nothing/);
    expect(wordsOf({ ...sameKey, normalizer: 'sigmoid' })).not.toMatch(/These are/);
  });

  it('states its results beside those of other normalizers', () => {
    const wordsOf = (set: Partial<Row>, ...twins: string[]) =>
      rowWords({ ...defaultRow, ...set }, twins);
    // Weights 1, 0 and -1 with values 0.1, 1 and 0.8.
    expect(wordsOf({ normalizer: 'none' }, 'softmax', 'sigmoid')).toMatchSnapshot();
    expect(wordsOf({ normalizer: 'none', scores: [-1, -1, 0] })).toMatch(
      /sum to −200%, and the head writes −1\.10/,
    );
    expect(wordsOf({ bias: 'logit', s: 1 })).toMatch(/sum to 60%, 40% goes to no token, and/);
    const nearZero = { bias: 'key', k: 0, v: 1e-6 } as const;
    expect(wordsOf(nearZero)).not.toMatch(/These are/);
    expect(wordsOf({ ...nearZero, v: 1e-10 })).toMatch(/These are/);
    expect(wordsOf({ bias: 'logit', s: 1e-6 })).not.toMatch(/These are/);
  });

  it('has the formula that belongs to its switches', () => {
    const words = ([, ...children]: MathNode): string =>
      children.map((child) => (typeof child === 'string' ? child : words(child))).join('');
    const formulas = (set: Partial<Row>) => formulaOf({ ...defaultRow, ...set }).map(words);
    expect(formulas({})).toEqual(['o=∑iwivi', 'wi=exi∑jexj']);
    expect(formulas({ bias: 'logit' })[1]).toBe('wi=exies+∑jexj');
    expect(formulas({ ...withBiasKey, gate: 'on' })).toMatchSnapshot();
    // In MathML the index of a token is an identifier (mi), that of the bias an operator (mo).
    const tags = JSON.stringify(formulaOf({ ...defaultRow, ...withBiasKey }));
    expect([
      tags.includes('["msub",["mi","w"],["mi","i"]]'),
      tags.includes('["msub",["mi","w"],["mo","∗"]]'),
    ]).toEqual([true, true]);
    expect(formulas({ normalizer: 'sigmoid' })[1]).toBe('wi=11+e−xi');
    expect(formulas({ ...withBiasKey, normalizer: 'none' })[2]).toBe('w∗=qk∗');
  });
});
