// @vitest-environment happy-dom
/** Interventions and terms as a reader uses them: links, a menu, undo, definitions that open. */
import { html, render } from 'lit';
import { describe, expect, it, vi } from 'vitest';
import { defaults, type State } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { interventionControls, interventionsOf } from '../src/page/hand';
import { explainTerms, field } from '../src/page/terms';
import { frameOf, tensor } from './fixture';
import { pageOf, mount } from './page';

function drawHand(frame: Frame, change: Partial<State> = {}) {
  const { context, set } = pageOf({ shown: [frame.subject, 'sigmoid'], ...change });
  const { root, all, texts } = mount(interventionControls(context, frame));
  const links = all<HTMLAnchorElement>('a.move');
  const stateOf = (i: number) =>
    JSON.parse(links[i]!.getAttribute('href')!.slice(1)) as Partial<State>;
  return { root, links, says: texts('a.move'), to: stateOf, set };
}

describe('interventions', () => {
  it('are links to the edited state, with the shown head selected', () => {
    const { says, to, root } = drawHand(frameOf(), { key: 1 });
    expect(says).toMatchSnapshot();
    expect(to(0)).toEqual({ shown: ['softmax~hide_key(1)', 'sigmoid'], at: 0, layer: 1, head: 0 });
    expect(to(2).shown![0]).toBe('softmax~silence(1,0)');
    expect(
      [...root.querySelectorAll('option')].map(({ textContent }) => textContent),
    ).toMatchSnapshot();
    expect(root.querySelector('.done')).toBeNull();
    const secondHand = drawHand(frameOf({ subject: 'sigmoid' }), { shown: ['softmax', 'sigmoid'] });
    expect(secondHand.to(0)).toMatchObject({ shown: ['softmax', 'sigmoid~hide_key(0)'], at: 1 });
    // One intervention is in view, for the first token if none is selected; the others are in a closed section.
    const visibleLinks = (change: Partial<State>) =>
      drawHand(frameOf(), change).links.filter((one) => !one.closest('details'));
    const visibleTexts = [{}, { key: 0 }, { query: 1 }, { key: 1, query: 2 }].map((change) =>
      visibleLinks(change).map(({ textContent }) => textContent!.trim()),
    );
    expect(visibleTexts).toMatchSnapshot();
    // The section is open if a channel is selected or something was changed.
    const isOpen = (channel: number, subject = 'softmax') =>
      drawHand(frameOf({ subject }), { channel }).root.querySelector('details')!.open;
    expect([isOpen(-1), isOpen(0), isOpen(-1, 'softmax~hide_key(0)')]).toEqual([
      ...[false, true, true],
    ]);
    const handOfTwo = drawHand(frameOf(), { shown: ['softmax', 'softmax~silence(1,0)'] });
    expect(handOfTwo.to(2)).toMatchObject({ shown: ['softmax~silence(1,0)'], at: 0 });
  });

  it('are undone by the same link, and apply to all heads, a layer or a head', () => {
    const frame = frameOf({ subject: 'softmax~silence(1,0)~hide_key(0)' });
    const { says, links, to, root, set } = drawHand(frame, { key: 0 });
    expect(says).toMatchSnapshot();
    expect(links[1]!.getAttribute('aria-label')).toBe('Undo silence(1,0)');
    expect(links[0]!.getAttribute('aria-label')).toBe(says[0]);
    expect(to(1).shown).toEqual(['softmax~hide_key(0)', 'sigmoid']);
    const select = root.querySelector('select')!;
    select.value = 'head';
    select.dispatchEvent(new Event('change'));
    expect(set).toHaveBeenCalledWith({ scope: 'head' });
    expect(drawHand(frame, { hide: ['hand'] }).root.textContent).toBe('');
  });

  it('in a model on a disk have no links for other readers', () => {
    const click = (subject: string) => {
      const { links, set } = drawHand(frameOf({ subject }));
      const event = new MouseEvent('click', { cancelable: true });
      links[0]!.dispatchEvent(event);
      return [set.mock.calls, event.defaultPrevented];
    };
    const disk = 'disk:0123456789abcdef/a';
    expect(click(disk)).toEqual([
      [[{ shown: [`${disk}~hide_key(0)`, 'sigmoid'], at: 0, layer: 1, head: 0 }, true]],
      true,
    ]);
    expect(click('softmax')).toEqual([[], false]);
  });

  it('name the token, channel or head on which they act', () => {
    const massive = {
      massive: tensor([3, 4], [1, 0, 0, 1, 9, 0, 0, 1, 5, 0, 0, 1]),
      massive_at: tensor([3, 3, 2], [0, 0, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]),
      super_weight: tensor([2, 6], [3, 5, 0, 0.5, 4, 2, 1, 6, 2, -0.5, 8, -5]),
    };
    const says = (change: Partial<State>, tensors: Frame['tensors'] = massive) =>
      interventionsOf(frameOf({}, tensors), { ...defaults, ...change }).map(({ label }) => label);
    expect(says({}).slice(3)).toMatchSnapshot();
    expect(says({ channel: 0, query: 0, layer: 1, head: 0 })).toMatchSnapshot();
    expect(says({ key: 0 })[0]).toBe('Hide the first token “<s>”');
    const embeddingMassive = {
      ...massive,
      massive: tensor([3, 4], [9, 0, 0, 1, 1, 0, 0, 1, 5, 0, 0, 1]),
    };
    expect(says({}, embeddingMassive)[3]).toMatchSnapshot();
    expect(says({ channel: 3, query: 1 }, {})).toMatchSnapshot();
    expect(says({ channel: 7, query: 2 })).toMatchSnapshot();
    for (const change of [
      { channel: 8, query: 2 },
      { channel: 7, query: 3 },
      { channel: -1, query: 2 },
    ])
      expect(says(change)).toMatchSnapshot();
  });

  it('drop the value of the heads that share it', () => {
    const architecture = { ...frameOf().architecture, H: 4, G: 2 };
    const at = { ...defaults, key: 0, scope: 'head' as const, layer: 0 };
    const values = [0, 1, 2, 3].map(
      (head) => interventionsOf(frameOf({ architecture }), { ...at, head })[1]!.edit.values[3],
    );
    expect(values).toEqual(['0', '0', '1', '1']);
  });
});

describe('terms', () => {
  const sentence = 'The head gives the first token much; a head with a sink under ε.';
  function drawLine(isOneStop = false) {
    const root = document.createElement('div');
    root.className = 'room';
    document.body.replaceChildren(root);
    render(explainTerms(sentence, isOneStop), root);
    return { root, terms: [...root.querySelectorAll<HTMLElement>('.term')] };
  }
  const showPopover = vi.fn();
  HTMLElement.prototype.showPopover = showPopover;
  vi.spyOn(HTMLElement.prototype, 'offsetWidth', 'get').mockReturnValue(200);
  vi.spyOn(HTMLElement.prototype, 'offsetHeight', 'get').mockReturnValue(50);

  it('are buttons at their first use, and the sentence is otherwise unchanged', () => {
    const { root, terms } = drawLine();
    expect(root.textContent).toBe(sentence);
    expect(terms.map(({ textContent }) => textContent)).toEqual(['head', 'token', 'sink', 'ε']);
    expect(terms.map(({ tabIndex }) => tabIndex)).toEqual([0, 0, 0, 0]);
  });

  it('open their definition above them where there is room, within the window', () => {
    const { root, terms } = drawLine();
    const show = (left: number, bottom: number) => {
      terms[2]!.getBoundingClientRect = () => new DOMRect(left, bottom - 10, 20, 10);
      terms[2]!.click();
      const note = root.querySelector<HTMLElement>('.note')!;
      return [note.style.left, note.style.top, note.getAttribute('role')];
    };
    const { innerWidth: width, innerHeight: height } = window;
    expect(show(100, 50)).toEqual(['100px', '54px', 'status']);
    expect(show(-5, 50)[0]).toBe('8px');
    expect(show(width, height)).toEqual([`${width - 208}px`, `${height - 64}px`, 'status']);
    expect(showPopover).toHaveBeenCalledTimes(3);
    expect(root.querySelectorAll('.note')).toHaveLength(1);
    expect(root.querySelector('.note')!.textContent!.length).toBeGreaterThan(20);
  });

  it('open under the pointer and close behind it, but stay if they were pressed', () => {
    const { root, terms } = drawLine();
    const hidePopover = vi.fn();
    HTMLElement.prototype.hidePopover = hidePopover;
    const move = (type: string) => terms[2]!.dispatchEvent(new MouseEvent(type));
    move('mouseenter');
    expect(root.querySelector('.note')!.textContent!.length).toBeGreaterThan(20);
    move('mouseleave');
    expect(hidePopover).toHaveBeenCalledTimes(1);
    move('mouseenter');
    terms[2]!.click();
    move('mouseleave');
    expect(hidePopover).toHaveBeenCalledTimes(1);
  });

  it('on one line are one tab stop, traversed by the arrow keys', () => {
    const { terms } = drawLine(true);
    expect(terms.map(({ tabIndex }) => tabIndex)).toEqual([0, -1, -1, -1]);
    const press = (at: number, key: string) => {
      terms[at]!.focus();
      const event = new KeyboardEvent('keydown', { key, cancelable: true });
      terms[at]!.dispatchEvent(event);
      return [terms.indexOf(document.activeElement as HTMLElement), event.defaultPrevented];
    };
    expect([
      press(0, 'ArrowRight'),
      press(2, 'ArrowLeft'),
      press(0, 'ArrowLeft'),
      press(3, 'ArrowRight'),
    ]).toEqual([
      [1, true],
      [1, true],
      [0, true],
      [3, true],
    ]);
    expect(press(1, 'a')).toEqual([1, false]);
    const separateTerms = drawLine().terms;
    separateTerms[0]!.focus();
    separateTerms[0]!.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
    expect(document.activeElement).toBe(separateTerms[0]);
  });

  it('in a label do not activate the labeled control when clicked', () => {
    const tags = ['threshold ε', 'speed'].map((label) => {
      const root = document.createElement('div');
      render(field(label, html`<input />`), root);
      return root.querySelector('.field')!.tagName;
    });
    expect(tags).toEqual(['SPAN', 'LABEL']);
  });
});
