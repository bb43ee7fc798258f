import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { claims, fact, modelsOfZoo, wrongly } from '../ship/facts';
import { lessons, pages } from '../ship/lessons';
import { lessonOf, picturesOf, writings } from '../ship/markdown';
import { parseHash } from '../src/ask/state';
import { parseSubject } from '../src/ask/subject';
import { headScores, values, type Run } from '../src/learn/values';
import { saysOf, start, variants } from '../src/learn/rows';
import { TERMS } from '../src/page/glossary';
import { rooms } from '../src/rooms/index';
import { views } from '../src/views/index';

const all = lessons();
const recordings = new Set(
  readdirSync(`${import.meta.dirname}/../../models/recordings`).map((file) => `recording:${file}`),
);
const ids = new Set(modelsOfZoo().map(({ id }) => id));

/** What is wrong with a state that a lesson or a claim names. */
function troublesOf(hash: string): string[] {
  const { state, problems } = parseHash(hash);
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const names = (given.get('shown')?.match(/[^,(]+(?:\([^)]*\))?/g) ?? []).map(
    (text) => parseSubject(text)?.id ?? '',
  );
  return [
    ...problems,
    ...names
      .filter((id) => !ids.has(id) && !id.startsWith('hub:') && !recordings.has(id))
      .map((id) => `no model ${id}`),
    ...(given.has('view') && !views.some(({ name }) => name === state.view)
      ? [`no view ${state.view}`]
      : []),
    ...(given.has('room') && !rooms.some(({ name }) => name === state.room)
      ? [`no room ${state.room}`]
      : []),
  ];
}

describe('the course', () => {
  it('has six lessons of 400 to 700 words, each in its parts', () => {
    expect(all.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6]);
    for (const { slug, words, figures, html, description, problems } of all) {
      expect(problems, slug).toEqual([]);
      expect(words, slug).toBeGreaterThanOrEqual(400);
      expect(words, slug).toBeLessThanOrEqual(700);
      const rows = html.match(/<sink-row/g)?.length ?? 0;
      expect(figures.length + rows, slug).toBeGreaterThanOrEqual(3);
      const operated = figures.filter(({ state }) => state.controls).length + rows;
      expect(operated, slug).toBeGreaterThanOrEqual(2);
      for (const part of ['class="predict"', 'class="exercise"', '>Remember<', '>Sources<'])
        expect(html, slug).toContain(part);
      expect(description.length, slug).toBeLessThan(160);
    }
  });

  it('names states that exist, in figures, links and claims', () => {
    for (const { slug, figures, links } of all) {
      for (const { id, state } of figures)
        expect(troublesOf(new URLSearchParams(namesOf(state)).toString()), id).toEqual([]);
      for (const link of links) expect(troublesOf(link), `${slug}: ${link}`).toEqual([]);
    }
    expect(troublesOf('shown=nobody&view=none&room=cellar&eps=much')).toHaveLength(4);
  });

  it('has a picture of each figure in the state that the lesson names, and no other', () => {
    const pictures = picturesOf();
    const figures = all.flatMap((lesson) => lesson.figures);
    expect(Object.keys(pictures).sort()).toEqual(figures.map(({ id }) => id).sort());
    for (const { id, state } of figures) expect(pictures[id]!.state, id).toEqual(state);
    for (const { figure, value } of all.flatMap(({ lives }) => lives))
      if (pictures[figure]) expect(values).toHaveProperty(value);
      else expect(writings()[figure]!.values, figure).toHaveProperty(value);
  });

  it('refuses a number that is not that of its table, one without a source, and an unknown sign', () => {
    const of = (body: string) => lessonOf('9-test', `# A\n\nB.\n\n${body}\n`).problems;
    const place = 'zoo softmax measured sink_1';
    expect(of(`It is :data[60%]{of="${place}"}.`)).toEqual([]);
    expect(of(`It is :data[61%]{of="${place}"}.`)).toEqual([`line 5: “61%”: ${place} is 60`]);
    expect(of('It is 60%.')).toEqual(['line 5: “It is 60%.”: a measured number without a source']);
    expect(of('It rises by 0.2 nats.')).toHaveLength(1);
    expect(of('Rows sum to 100%, with 95% intervals.')).toEqual([]);
    expect(of('It is :unknown[this]{}.')[0]).toMatch(/“:unknown”: expected one of/);
    expect(of('It is :live[1%]{figure="none" value="alpha"}.')).toHaveLength(1);
    expect(of('::row{columns="softmin"}')[0]).toMatch(/softmin/);
    expect(() => fact('zoo softmax measured')).toThrow(/expected a number/);
    expect(wrongly('-0.4', 'zoo sigmoid differs outcomes alpha 0')).toBeUndefined();
    expect(wrongly('42%', 'zoo sigmoid differs outcomes alpha 0', 'fall')).toBeDefined();
  });

  it('says of lesson 5’s models what their intervals say', () => {
    const names = ['sigmoid', 'softmax1', 'sink-logit', 'key-bias', 'gated'];
    const own = modelsOfZoo().filter(({ id }) => names.includes(id));
    expect(own).toHaveLength(names.length);
    const outcome = (name: string) => own.map(({ differs }) => differs!.outcomes[name]!);
    // “every interval lies below zero”; “a few hundredths of a nat”; “the gated model has the lowest loss”
    for (const [, , high] of outcome('alpha')) expect(high).toBeLessThan(0);
    for (const [mean] of outcome('loss')) expect(Math.abs(mean)).toBeLessThan(0.06);
    const losses = own.map(({ id, differs }) => [differs!.outcomes.loss![0], id] as const);
    expect(losses.sort((a, b) => a[0] - b[0])[0]![1]).toBe('gated');
  });

  it('shows every claim in lesson 6', () => {
    const { html } = all.at(-1)!;
    for (const { claim } of claims())
      expect(html).toContain(claim.replaceAll('&', '&#x26;').replaceAll('<', '&#x3C;'));
  });

  it('is pages that can be found: a title, a description and a next lesson each', () => {
    const made = pages();
    for (const { slug, title, number } of all) {
      const html = made[`learn/${slug}/index.html`]!;
      expect(html).toContain(`<title>${title} · Sinkscope</title>`);
      expect(html).toContain('name="description"');
      expect(html).toContain('property="og:description"');
      const next = all.find((one) => one.number === number + 1);
      if (next) expect(html).toContain(`href="../${next.slug}/index.html"`);
      // Links between lessons lead somewhere.
      for (const [, to] of html.matchAll(/href="\.\.\/([\w-]+)\/index\.html"/g))
        expect(made, `${slug} to ${to}`).toHaveProperty([`learn/${to}/index.html`]);
    }
  });

  it('has each term of the page in its glossary', () => {
    const html = pages()['learn/glossary/index.html']!;
    for (const { term, pattern } of TERMS) {
      expect(html).toContain(`<dt>${term}</dt>`);
      expect(term, 'the name is one that sentences have').toMatch(pattern);
    }
  });
});

/** Attributes are written in small letters; states have their own. */
function namesOf(state: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(state).map(([name, value]) => [name === 't' ? 'T' : name, value]),
  );
}

/** α₁ of 0.1, 0.2, ... in the heads of two layers of two heads, and maps of three tokens that have it. */
const run = (alphas: readonly number[]): Run['results'][number] => ({
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

describe('numbers of a run in a text', () => {
  it('count the heads above the threshold, by hand', () => {
    const result = run([0.4, 0.5, 0.9, 0.35]);
    expect(headScores(result).map(({ alpha }) => alpha.toFixed(2))).toEqual([
      '0.40',
      '0.50',
      '0.90',
      '0.35',
    ]);
    expect(values.count!([result])).toBe('4');
    expect(values.count!([{ ...result, eps: 0.45 }])).toBe('2');
    expect(values.share!([{ ...result, eps: 0.45 }])).toBe('50%');
    // (1 + 1/2 + 1/3) / 3
    expect(values.uniform!([result])).toBe('61%');
  });

  it('are a dash where a figure has none', () => {
    for (const of of Object.values(values)) expect(of([])).toMatch(/^(–|NaN)?$/);
  });
});

describe('a row of three scores', () => {
  const of = (name: string, row = start) => variants.find((one) => one.name === name)!.of(row);
  const total = (name: string, row = start) => of(name, row).weights.reduce((a, b) => a + b, 0);

  it('has the weights that PyTorch gives', () => {
    // torch.softmax(torch.tensor([1., 0., -1.]), 0), the same with a fourth score of 0 (softmax1) or 1 (sink logit), and torch.sigmoid
    const near = (name: string, expected: readonly number[]) =>
      of(name).weights.forEach((weight, i) => expect(weight).toBeCloseTo(expected[i]!, 6));
    near('softmax', [0.66524094, 0.24472848, 0.09003057]);
    near('softmax1', [0.53444666, 0.19661194, 0.07232949]);
    near('sigmoid', [0.7310586, 0.5, 0.26894143]);
    near('sink_logit', [0.39948627, 0.14696279, 0.05406459]);
  });

  it('sums to 1 with what goes to no token, except with sigmoid', () => {
    for (const name of ['softmax', 'softmax1', 'sink_logit', 'key_bias', 'gated'])
      expect(total(name) + of(name).nowhere, name).toBeCloseTo(1, 12);
    const low = { ...start, scores: [-6, -6, -6] };
    expect(total('softmax', low)).toBeCloseTo(1, 12);
    expect(total('sigmoid', low)).toBeLessThan(0.01);
  });

  it('shows that softmax1 is a bias key with score 0 and value 0', () => {
    const columns = ['softmax', 'softmax1', 'sink_logit', 'key_bias'];
    expect(saysOf(start, columns)).toMatch(/^Weight that goes to no token/);
    const same = { ...start, bias: 0, biasValue: 0 };
    expect(of('key_bias', same)).toEqual(of('softmax1', same));
    expect(saysOf(same, columns)).toMatch(/softmax₁ is a bias key with score 0 and value 0/);
    const valued = { ...same, biasValue: 0.5 };
    expect(saysOf(valued, columns)).not.toMatch(/same/);
    const logit = { ...start, logit: 2, bias: 2, biasValue: 0 };
    expect(saysOf(logit, columns)).toMatch(/sink logit is a bias key with value 0/);
  });
});
