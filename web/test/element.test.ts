// @vitest-environment happy-dom
/** <sink-scope> on a host's page: its attributes and properties, its start, its frames, and the host's theme. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { defaults, type State } from '../src/ask/state';
import { attributesOf, recordingOf, stateOf, writeAttributes } from '../src/embed/attributes';
import '../src/embed/element';
import { inheritanceParent, themeOf, watchTheme } from '../src/embed/theme';
import { PATIENCE, turn } from './fixture';

const lives: { state: State; follow: ReturnType<typeof vi.fn>; end: ReturnType<typeof vi.fn> }[] =
  vi.hoisted(() => []);
vi.mock('../src/embed/live', () => ({
  Live: class {
    follow = vi.fn();
    end = vi.fn();
    constructor(
      host: Element,
      _: unknown,
      readonly given: { state: State },
    ) {
      if (host.getAttribute('view') === 'norms') throw new Error('no engine');
      lives.push({ state: given.state, follow: this.follow, end: this.end });
    }
  },
}));

// happy-dom lacks this function.
Object.assign(HTMLElement.prototype, { attachInternals: () => ({}) });

let see: (isNear: boolean) => void = () => {};
let isSystemDark = false;
/** The pixel that a canvas draws for each CSS color of these tests. */
const COLORS: Record<string, number[]> = {
  black: [0, 0, 0, 255],
  white: [255, 255, 255, 255],
  // The luminance of red, green and blue: 0.299, 0.587 and 0.114.
  red: [255, 0, 0, 255],
  green: [0, 255, 0, 255],
  gray: [128, 128, 128, 255],
  pale: [255, 255, 255, 127],
  half: [255, 255, 255, 128],
  none: [0, 0, 0, 0],
};
let fill = '';
/** The canvas's only pixel, onto which colors are blended. */
let pixel: readonly number[] = COLORS.none!;
const blend = (under: readonly number[], over: readonly number[]) => {
  const [a, b] = [over[3]! / 255, (under[3]! / 255) * (1 - over[3]! / 255)];
  if (a + b === 0) return COLORS.none!;
  const mixed = [0, 1, 2].map((i) => (over[i]! * a + under[i]! * b) / (a + b));
  return [...mixed, 255 * (a + b)];
};
beforeEach(() => {
  document.body.replaceChildren();
  lives.length = 0;
  isSystemDark = false;
  vi.stubGlobal(
    'IntersectionObserver',
    class {
      constructor(report: (entries: object[]) => void) {
        see = (isIntersecting) => report([{ isIntersecting: false }, { isIntersecting }]);
      }
      observe() {}
      disconnect() {}
    },
  );
  vi.stubGlobal('matchMedia', () => ({ matches: isSystemDark, addEventListener: () => {} }));
  vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue({
    set fillStyle(color: string) {
      fill = color;
    },
    clearRect: () => (pixel = COLORS.none!),
    fillRect: () => (pixel = blend(pixel, COLORS[fill] ?? COLORS.none!)),
    getImageData: () => ({ data: pixel }),
  } as never);
});

describe('attributes', () => {
  const elementWith = (attributes: Record<string, string>) => {
    const element = document.createElement('p');
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  it('are the settings of the state in lower case', () => {
    const { state, problems } = stateOf(
      elementWith({ view: 'sinks', t: '32', topk: '5', class: 'x' }),
    );
    expect(state).toEqual({ ...defaults, view: 'sinks', T: 32, topK: 5 });
    expect(problems).toEqual([]);
    expect(stateOf(elementWith({ t: 'many' })).problems).toHaveLength(1);
    expect(attributesOf({ ...defaults, T: 32, eps: 0.4 }, ['view'])).toEqual([
      ['t', '32'],
      ['eps', '0.4'],
      ['view', defaults.view],
    ]);
  });

  it('may name a recording, relative to the page, instead of models', () => {
    const element = elementWith({ recording: 'a b.safetensors', shown: 'sigmoid' });
    const id = recordingOf(element)!;
    expect(id).toMatch(/^recording:.*a%20b\.safetensors$/);
    expect(stateOf(element).state.shown).toEqual([id]);
    expect(stateOf(element).problems).toEqual([]);
    for (const recording of ['', 'http://[']) {
      expect(recordingOf(elementWith({ recording }))).toBeUndefined();
      expect(stateOf(elementWith({ recording })).problems).toMatchSnapshot();
    }
    expect(stateOf(elementWith({ shown: 'sigmoid' })).state.shown).toEqual(['sigmoid']);
  });

  it('are written if they differ from the current attributes or the defaults', () => {
    const element = elementWith({ eps: '0.4' });
    const set = vi.spyOn(element, 'setAttribute');
    writeAttributes(element, { ...defaults, eps: 0.4, T: 32 }, ['eps', 'T', 'n']);
    expect(set.mock.calls).toEqual([['t', '32']]);
    writeAttributes(element, defaults, ['eps', 'T']);
    expect([element.getAttribute('eps'), element.getAttribute('t')]).toEqual([
      String(defaults.eps),
      String(defaults.T),
    ]);
  });
});

describe('the element sink-scope', () => {
  type Settable = { -readonly [Name in keyof State]: State[Name] };
  type Figure = HTMLElement & Settable & { internals: ElementInternals };
  const place = (markup = '<sink-scope view="sinks"></sink-scope>') => {
    document.body.innerHTML = markup;
    return document.body.firstElementChild as Figure;
  };

  it('begins near the window, follows its attributes, and ends when it is removed', async () => {
    const figure = place();
    see(false);
    await turn();
    expect(lives).toEqual([]);
    see(true);
    see(true);
    await vi.waitUntil(() => lives.length, PATIENCE);
    await turn();
    expect([lives.length, lives[0]!.state.view]).toEqual([1, 'sinks']);
    figure.setAttribute('eps', '0.4');
    figure.setAttribute('t', '32');
    await turn();
    expect(lives[0]!.follow.mock.calls.map(([{ state }]) => [state.eps, state.T])).toEqual([
      [0.4, 32],
    ]);
    figure.setAttribute('eps', '0.5');
    await turn();
    expect(lives[0]!.follow).toHaveBeenCalledTimes(2);
    figure.remove();
    await turn();
    expect(lives[0]!.end).toHaveBeenCalledTimes(1);
    figure.setAttribute('eps', '0.6');
    await turn();
    expect(lives[0]!.follow).toHaveBeenCalledTimes(2);
  });

  it('has the state as properties', () => {
    const figure = place('<sink-scope eps="0.4"></sink-scope>');
    expect([figure.eps, figure.T]).toEqual([0.4, defaults.T]);
    figure.T = 16;
    figure.view = 'norms';
    figure.shown = ['relu', 'sigmoid'];
    expect(['t', 'view', 'shown'].map((name) => figure.getAttribute(name))).toMatchSnapshot();
    // Frameworks remove a property by undefined or null.
    const settable = figure as unknown as Record<string, unknown>;
    settable.shown = undefined;
    settable.T = null;
    settable.prompt = undefined;
    expect(['t', 'shown', 'prompt'].map((name) => figure.getAttribute(name))).toEqual(
      Array(3).fill(null),
    );
    settable.shown = 7;
    expect(figure.getAttribute('shown')).toBe('7');
    settable.shown = null;
    expect([figure.internals.role, figure.internals.ariaLabel]).toMatchSnapshot();
    expect(figure.shadowRoot!.querySelector('slot')).not.toBeNull();
  });

  it('takes the size from its attributes, with a style sheet that no policy of a host blocks', () => {
    const figure = place('<sink-scope width="360" height="300"></sink-scope>');
    const rules = () =>
      figure
        .shadowRoot!.adoptedStyleSheets.at(-1)!
        .cssRules[0]!.cssText.replace(/\s+/g, ' ')
        .replace(/ ?; ?/g, '; ');
    expect(rules()).toContain('width: 360px; height: 300px;');
    // Other lengths have a unit.
    figure.setAttribute('height', ' 50vh');
    figure.setAttribute('width', '100%');
    expect(rules()).toContain('width: 100%; height: 50vh;');
    expect(stateOf(figure).problems).toEqual([]);
    for (const wrong of ['wide', '12em nonsense', '12;color:red', '0', '-5']) {
      figure.setAttribute('height', wrong);
      expect(rules(), wrong).not.toContain('height: ');
      expect(stateOf(figure).problems).toMatchSnapshot(wrong);
    }
    expect(figure.hasAttribute('style')).toBe(false);
  });

  it('reports whether it has a picture, and why it could not start', async () => {
    expect(place().hasAttribute('data-pictured')).toBe(false);
    const figure = document.createElement('sink-scope');
    figure.append(document.createElement('img'));
    document.body.append(figure);
    expect(figure.hasAttribute('data-pictured')).toBe(true);
    const errors: unknown[] = [];
    document.body.addEventListener('error', (event) =>
      errors.push((event as unknown as CustomEvent).detail),
    );
    const brokenFigure = place('<sink-scope view="norms"></sink-scope>');
    see(true);
    await vi.waitUntil(() => errors.length, PATIENCE);
    // The error appears once: neither another attribute nor the end is a second error on the host's page.
    brokenFigure.setAttribute('eps', '0.4');
    await turn();
    brokenFigure.remove();
    await turn();
    expect(errors).toEqual([{ message: 'Error: no engine' }]);
  });
});

describe('iframes of this site', () => {
  const addFrame = (size = '') => {
    const frame = document.createElement('iframe');
    if (size) frame.dataset.size = size;
    const source = { postMessage: vi.fn() };
    vi.spyOn(frame, 'contentWindow', 'get').mockReturnValue(source as never);
    document.body.append(frame);
    const siteOrigin = new URL(import.meta.url).origin;
    const sendMessage = (data: object, origin = siteOrigin, from: object = source) => {
      const event = new Event('message');
      Object.assign(event, { origin, data, source: from });
      dispatchEvent(event);
      return frame.style.height;
    };
    return { say: sendMessage, source };
  };

  it('have the requested height, and ignore messages from other windows and sites', () => {
    const { say, source } = addFrame();
    const height = (value: unknown) => ({ sinkscope: 'height', height: value });
    expect(say(height(300), 'https://evil.example')).toBe('');
    expect(say({ sinkscope: 'other', height: 300 })).toBe('');
    for (const wrong of ['300', 0, -1, NaN, 20_000])
      expect(say(height(wrong)), String(wrong)).toBe('');
    expect(say(height(300), undefined, {})).toBe('');
    expect(source.postMessage).not.toHaveBeenCalled();
    expect(say(height(300.2))).toBe('301px');
    expect(source.postMessage.mock.lastCall![0]).toMatchSnapshot();
    expect(say(height(19_999))).toBe('19999px');
  });

  it('pass keys that they do not use to the enclosing page', () => {
    const { say, source } = addFrame('fixed');
    const heardKeys: unknown[] = [];
    const onKey = (event: Event) => heardKeys.push((event as KeyboardEvent).key);
    addEventListener('keydown', onKey);
    const key = { sinkscope: 'key', key: 'ArrowRight', code: 'ArrowRight', keyCode: 39 };
    say(key);
    say(key, 'https://evil.example');
    say(key, undefined, {});
    removeEventListener('keydown', onKey);
    expect([heardKeys, source.postMessage.mock.calls]).toEqual([['ArrowRight'], []]);
  });

  it('keep their size on a slide, and receive the theme', () => {
    const { say, source } = addFrame('fixed');
    document.body.style.color = 'white';
    expect(say({ sinkscope: 'height', height: 300 })).toBe('');
    expect(source.postMessage.mock.lastCall![0]).toMatchSnapshot();
    document.body.style.color = '';
  });
});

describe('the theme of a host', () => {
  it('is inherited through slots and shadow trees', () => {
    document.body.innerHTML = '<div></div><p><b></b></p>';
    const [host, parent] = [document.querySelector('div')!, document.querySelector('p')!];
    const shadow = host.attachShadow({ mode: 'open' });
    shadow.innerHTML = '<i></i>';
    expect(inheritanceParent(shadow.querySelector('i')!)).toBe(host);
    expect(inheritanceParent(parent.firstElementChild!)).toBe(parent);
    // happy-dom assigns no slots.
    const slot = document.createElement('slot');
    Object.defineProperty(parent.firstElementChild!, 'assignedSlot', { value: slot });
    expect(inheritanceParent(parent.firstElementChild!)).toBe(slot);
    expect(inheritanceParent(document.documentElement)).toBe(null);
  });

  const themeFor = (letters: string, behind = '', scheme = '') => {
    document.body.innerHTML = '<div><section></section></div>';
    const [outer, inner] = [document.querySelector('div')!, document.querySelector('section')!];
    vi.spyOn(globalThis, 'getComputedStyle').mockImplementation(
      (one) =>
        ({
          color: letters,
          backgroundColor: one === outer ? behind : 'none',
          colorScheme: scheme,
        }) as never,
    );
    const theme = themeOf(inner);
    vi.mocked(getComputedStyle).mockRestore();
    return theme;
  };

  it('follows the text color, and also the background if the text is gray', () => {
    expect([
      themeFor('black'),
      themeFor('white'),
      themeFor('red'),
      themeFor('green'),
    ]).toMatchSnapshot();
    expect([themeFor('white', 'white'), themeFor('black', 'black')]).toEqual(['dark', 'light']);
    expect([
      themeFor('gray', 'black'),
      themeFor('gray', 'white'),
      themeFor('green', 'red'),
    ]).toEqual(['dark', 'light', 'dark']);
    expect([themeFor('gray', 'pale', 'dark'), themeFor('gray', 'half', 'dark')]).toMatchSnapshot();
  });

  it('is that of the browser if the page has no background', () => {
    const schemes = ['', 'light', 'dark', 'light dark'];
    expect(schemes.map((one) => themeFor('gray', 'none', one))).toMatchSnapshot();
    isSystemDark = true;
    expect(schemes.map((one) => themeFor('gray', 'none', one))).toMatchSnapshot();
  });

  it('is updated when an ancestor or a style sheet changes, until the observer ends', async () => {
    document.body.innerHTML = '<div><section></section></div>';
    const onChange = vi.fn();
    const end = watchTheme(document.querySelector('section')!, onChange);
    const isUpdatedBy = async (change: () => void) => {
      onChange.mockClear();
      change();
      await turn();
      return onChange.mock.calls.length > 0;
    };
    const endTransition = (propertyName: string) => () => {
      const event = new Event('transitionend');
      Object.assign(event, { propertyName });
      document.dispatchEvent(event);
    };
    expect(await isUpdatedBy(() => document.querySelector('div')!.classList.add('dark'))).toBe(
      true,
    );
    expect(await isUpdatedBy(() => document.body.setAttribute('data-theme', 'x'))).toBe(true);
    expect(await isUpdatedBy(() => document.head.append(document.createElement('style')))).toBe(
      true,
    );
    expect([
      await isUpdatedBy(endTransition('background-color')),
      await isUpdatedBy(endTransition('width')),
    ]).toEqual([true, false]);
    expect(await isUpdatedBy(() => document.head.dispatchEvent(new Event('load')))).toBe(true);
    end();
    expect(await isUpdatedBy(() => document.querySelector('div')!.classList.add('more'))).toBe(
      false,
    );
    expect(await isUpdatedBy(endTransition('color'))).toBe(false);
  });
});
