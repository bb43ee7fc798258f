// @vitest-environment happy-dom
/** The menu on every figure: its files, and how it opens and closes. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { fileOf, metadataOf, type Figure } from '../src/save/file';
import {
  addKinds,
  addRecording,
  makeMenu,
  fileName,
  downloadFile,
  KINDS,
  drawOnPaper,
} from '../src/save/menu';
import { frameOf } from './fixture';

const figure = (link = 'https://page.example/app/#shown=softmax', titles = ['Softmax model']) =>
  ({
    name: 'norms',
    title: 'Norms',
    says: ['A sentence.'],
    numbers: titles.map((title) => ({ frame: frameOf({ title }), quantities: [] })),
    facts: { corpus: { kind: 'text' }, version: '1.2.3', link },
  }) as unknown as Figure;

const saved: { name: string; bytes: string }[] = [];
beforeEach(() => {
  saved.length = 0;
  vi.useFakeTimers();
  vi.spyOn(URL, 'createObjectURL').mockReturnValue('blob:1');
  vi.spyOn(URL, 'revokeObjectURL').mockReturnValue();
  vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (
    this: HTMLAnchorElement,
  ) {
    saved.push({ name: this.download, bytes: this.href });
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  for (const menu of document.querySelectorAll('details')) {
    menu.open = false;
    menu.dispatchEvent(new Event('toggle'));
  }
  document.body.replaceChildren();
});

describe('a saved file', () => {
  it('names its content, models, conditions and address', () => {
    const description = metadataOf(figure(undefined, ['A', 'B', 'A']));
    expect(description).toMatchObject({
      title: 'Norms: A, B',
      note: 'Sinkscope 1.2.3 https://page.example/app/',
      facts: {
        figure: 'norms',
        measured_by: 'Sinkscope 1.2.3',
        link: 'https://page.example/app/#shown=softmax',
        subjects: [{ title: 'A' }, { title: 'B' }, { title: 'A' }],
      },
    });
    expect(description.description.split('\n')).toHaveLength(4);
    expect(description.description).toMatch(/^A sentence\.\nMEASURED · ε = 0\.3/);
    expect(metadataOf(figure(undefined, [])).title).toBe('Norms');
  });

  it('omits an address that others cannot open', () => {
    const statesLink = (link: string) => 'link' in metadataOf(figure(link)).facts;
    const localHosts = [
      'localhost',
      '127.0.0.1',
      '10.1.2.3',
      '192.168.0.9',
      '169.254.1.1',
      '172.16.0.1',
    ];
    const otherLocalHosts = [
      '172.20.0.1',
      '172.31.0.1',
      'printer.local',
      'a.internal',
      'a.test',
      'a.home.arpa',
    ];
    for (const host of [...localHosts, ...otherLocalHosts, '[::1]'])
      expect(statesLink(`http://${host}:8080/#x`), host).toBe(false);
    for (const host of ['page.example', '172.15.0.1', '172.32.0.1', '11.1.2.3', 'a.io'])
      expect(statesLink(`https://${host}/#x`), host).toBe(true);
    expect(statesLink('file:///tmp/a.b/index.html')).toBe(false);
    expect(metadataOf(figure('http://localhost/')).note).toBe('Sinkscope 1.2.3');
  });

  it('is numbers as CSV and JSON, named after at most two models', async () => {
    const [csv, json] = await Promise.all(
      (['CSV', 'JSON'] as const).map((kind) => fileOf(kind, figure())),
    );
    expect([csv!.type, json!.type]).toEqual(['text/csv', 'application/json']);
    expect(await csv!.text()).toMatch(/^# corpus,/);
    expect(JSON.parse(await json!.text())).toMatchObject({ figure: 'norms' });
    expect(fileName(figure(undefined, ['Ä b', 'c', 'd']), 'CSV')).toBe('sinkscope-norms-ä-b-c.csv');
    const longName = fileName(figure(undefined, ['x'.repeat(200)]), 'PNG');
    expect([longName.length, longName.endsWith('x.png')]).toEqual([120, true]);
    expect(KINDS).toEqual(['SVG', 'PNG', 'CSV', 'JSON']);
  });

  it('is drawn in the light theme without changing what the reader sees', () => {
    const { documentElement: page } = document;
    for (const theme of [undefined, 'dark']) {
      if (theme) page.dataset.theme = theme;
      const drawnThemes: unknown[] = [];
      const takePicture = () =>
        drawOnPaper(
          document.body,
          (theme) => drawnThemes.push(theme),
          () => page.dataset.theme,
        );
      expect([takePicture(), drawnThemes, page.dataset.theme]).toEqual([
        'light',
        ['light', undefined],
        theme,
      ]);
      const fail = () => {
        throw new Error('no canvas');
      };
      expect(() => drawOnPaper(document.body, () => {}, fail)).toThrow('no canvas');
      expect(page.dataset.theme).toBe(theme);
    }
    delete page.dataset.theme;
    const host = document.createElement('div');
    const shadow = host.attachShadow({ mode: 'open' });
    const inner = document.createElement('p');
    shadow.append(inner);
    const themes = () => [host.dataset.theme, page.dataset.theme];
    expect(drawOnPaper(inner, () => {}, themes)).toEqual(['light', undefined]);
    expect(themes()).toEqual([undefined, undefined]);
  });

  it('is kept until the browser has read it', () => {
    downloadFile(new Blob(['x']), 'x.csv');
    expect(saved).toEqual([{ name: 'x.csv', bytes: 'blob:1' }]);
    vi.advanceTimersByTime(9_000);
    expect(URL.revokeObjectURL).not.toHaveBeenCalled();
    vi.advanceTimersByTime(2_000);
    expect(URL.revokeObjectURL).toHaveBeenCalledWith('blob:1');
  });
});

function menuOf(choose = vi.fn()) {
  const place = document.createElement('div');
  document.body.append(place);
  const menu = addKinds(place, 'Norms', ['SVG', 'CSV'], choose);
  const list = menu.lastElementChild as HTMLElement;
  const toggle = (open: boolean) => {
    menu.open = open;
    menu.dispatchEvent(new Event('toggle'));
  };
  toggle(true);
  const placeAt = (left: number, right: number) => {
    list.getBoundingClientRect = () => new DOMRect(left, 0, right - left, 20);
    toggle(true);
    return list.style.translate;
  };
  return { menu, list, toggle, placeAt, choose, summary: menu.querySelector('summary')! };
}

describe('a menu', () => {
  it('has a button for each kind of file, and closes after a choice', () => {
    const { menu, choose, summary } = menuOf();
    const buttons = [...menu.querySelectorAll('button')];
    expect(buttons.map(({ textContent, type }) => [textContent, type])).toMatchSnapshot();
    expect([summary.textContent, summary.getAttribute('aria-label')]).toMatchSnapshot();
    buttons[1]!.click();
    expect([choose.mock.calls, menu.open, document.activeElement]).toEqual([
      [['CSV']],
      false,
      summary,
    ]);
  });

  it('closes on Escape and on a press elsewhere, and listens only while it is open', () => {
    const { menu, list, toggle, summary } = menuOf();
    const pressKey = (name: string) =>
      menu.dispatchEvent(new KeyboardEvent('keydown', { key: name }));
    pressKey('a');
    expect(menu.open).toBe(true);
    pressKey('Escape');
    expect([menu.open, document.activeElement]).toEqual([false, summary]);
    summary.blur();
    pressKey('Escape');
    expect(document.activeElement).not.toBe(summary);
    toggle(true);
    const press = (target: Element) =>
      target.dispatchEvent(new Event('pointerdown', { bubbles: true, composed: true }));
    press(list);
    expect(menu.open).toBe(true);
    press(document.body);
    expect(menu.open).toBe(false);
    const removeListener = vi.spyOn(document, 'removeEventListener');
    toggle(false);
    expect(removeListener).toHaveBeenCalledWith('pointerdown', expect.any(Function), true);
  });

  it('stays within the window', () => {
    vi.spyOn(document.documentElement, 'clientWidth', 'get').mockReturnValue(400);
    const { placeAt, list, toggle } = menuOf();
    expect([
      placeAt(100, 200),
      placeAt(100, 392),
      placeAt(100, 402),
      placeAt(-20, 100),
      placeAt(0, 100),
    ]).toEqual(['0px', '0px', '-10px', '28px', '8px']);
    toggle(false);
    expect(list.style.translate).toBe('');
    makeMenu(document.createElement('details'));
  });

  it('makes a recording first, shows its size, and saves its files at the second click', async () => {
    const { menu, toggle } = menuOf();
    const files = [
      { name: 'a.safetensors', bytes: new Uint8Array(1_000) },
      { name: 'a.json', bytes: new Uint8Array(1) },
    ];
    const make = vi.fn(async () => files);
    const fail = vi.fn();
    addRecording(menu, make, fail);
    const button = [...menu.querySelectorAll('button')].at(-1)!;
    expect([button.textContent, button.type]).toEqual(['Recording …', 'button']);
    button.click();
    expect(button.textContent).toBe('Measuring …');
    await vi.advanceTimersByTimeAsync(0);
    expect(button.textContent).toBe('Save recording (2 kB)');
    button.click();
    expect(saved.map(({ name }) => name)).toEqual(['a.safetensors', 'a.json']);
    expect([menu.open, button.textContent]).toEqual([false, 'Recording …']);
    files[0]!.bytes = new Uint8Array(1_250_000);
    button.click();
    await vi.advanceTimersByTimeAsync(0);
    expect(button.textContent).toBe('Save recording (1.3 MB)');
    toggle(true);
    expect(button.textContent).toBe('Save recording (1.3 MB)');
    toggle(false);
    expect(button.textContent).toBe('Recording …');
    make.mockRejectedValueOnce(new Error('lost'));
    button.click();
    await vi.advanceTimersByTimeAsync(0);
    expect([button.textContent, fail.mock.calls.length]).toEqual(['Recording …', 1]);
    files[0]!.bytes = new Uint8Array(999_998);
    button.click();
    await vi.advanceTimersByTimeAsync(0);
    expect(button.textContent).toBe('Save recording (1000 kB)');
    files.pop();
    files[0]!.bytes = new Uint8Array(1_000_000);
    toggle(false);
    button.click();
    await vi.advanceTimersByTimeAsync(0);
    expect(button.textContent).toBe('Save recording (1.0 MB)');
  });
});
