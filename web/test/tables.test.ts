/** The page's tables: each definition in a file is a row, and names in links are unique. */
import { describe, expect, it } from 'vitest';
import { experiments } from '../src/experiments';
import { parseHash } from '../src/ask/state';
import { PRESETS } from '../src/lab/presets';
import { rooms } from '../src/rooms/index';
import { views } from '../src/views';

type Modules = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

function rowsIn(modules: Modules, ...properties: readonly string[]): string[] {
  return Object.values(modules)
    .flatMap((module) => Object.values(module))
    .filter(
      (value): value is { name: string } =>
        typeof value === 'object' &&
        value !== null &&
        properties.every((property) => property in value),
    )
    .map(({ name }) => name);
}

const namesOf = (rows: readonly { readonly name: string }[]) => rows.map(({ name }) => name);

describe('tables of the page', () => {
  it('list every view defined in views/ once', () => {
    const files = import.meta.glob<Modules[string]>('../src/views/*.ts', { eager: true });
    const definedViews = new Set(rowsIn(files, 'name', 'question', 'reads', 'draw'));
    expect(namesOf(views).toSorted()).toEqual([...definedViews].toSorted());
  });

  it('list every experiment defined in experiments/, under a name that links accept', () => {
    const files = import.meta.glob<Modules[string]>('../src/experiments/*.ts', { eager: true });
    const definedExperiments = new Set(rowsIn(files, 'name', 'plan', 'says', 'columnsOf'));
    expect(namesOf(experiments).toSorted()).toEqual([...definedExperiments].toSorted());
    for (const name of namesOf(experiments))
      expect({ name, state: parseHash(`#experiment=${name}`).state.experiment }).toEqual({
        name,
        state: name,
      });
  });

  it('list every room defined in rooms/ once, except the figure of embeds', () => {
    // Rooms run only in a page, so this test reads their source text.
    const files = import.meta.glob<string>('../src/rooms/*.ts', {
      eager: true,
      query: '?raw',
      import: 'default',
    });
    const builtRooms = Object.keys(files)
      .filter((path) => /^export ((async )?function build\b|\{ build \})/m.test(files[path]!))
      .map((path) => /([a-z_]+)\.ts$/.exec(path)![1]);
    expect([...namesOf(rooms), 'figure'].toSorted()).toEqual(builtRooms.toSorted());
  });

  it('list presets of the lab that compare two different models and say what to look for', () => {
    for (const preset of PRESETS) {
      expect(preset.leftRun).not.toBe(preset.rightRun);
      expect(preset.claim.length).toBeGreaterThan(40);
      const rates = [preset.leftRun, preset.rightRun].flatMap(
        (run) => /learning_rate:([\d.]+)/.exec(run)?.[1] ?? [],
      );
      // A second difference is said, too.
      if (new Set(rates).size > 1)
        for (const rate of rates) expect(preset.claim).toContain(` ${rate}`);
    }
  });
});
