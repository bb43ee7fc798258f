// @vitest-environment happy-dom
/** The widget of `sinkscope.show` where a notebook's policy forbids its modules, as that of VS Code does. */
import { expect, it, vi } from 'vitest';
// @ts-expect-error The Python package has no types for its script.
import widget from '../../models/record/src/sinkscope/widget.js';

const { render } = widget as { readonly render: (place: object) => () => void };

it('a widget whose frame fails asks for its still picture, and says why', () => {
  const heard = new Map<string, (message: object, buffers: DataView[]) => void>();
  const model = {
    get: (name: string) => `the ${name}`,
    set: vi.fn(),
    save_changes: vi.fn(),
    on: (name: string, hear: () => void) => void heard.set(name, hear),
    off: (name: string) => void heard.delete(name),
    send: vi.fn(),
  };
  const el = document.body.appendChild(document.createElement('main'));
  const end = render({ model, el });
  expect(model.send.mock.lastCall).toEqual([{ request: 'element' }]);
  const frame = el.querySelector('iframe')!;
  const source = { postMessage: vi.fn() };
  Object.defineProperty(frame, 'contentWindow', { value: source });
  const say = (from: object, why: string) => {
    const data = { sinkscope: 'error', detail: { message: why } };
    dispatchEvent(Object.assign(new Event('message'), { source: from, data }));
  };
  say({}, 'a stranger');
  expect(model.send).toHaveBeenCalledOnce();
  say(source, 'blocked by the policy');
  expect(model.send.mock.lastCall).toEqual([{ request: 'still', why: 'blocked by the policy' }]);
  const picture = el.querySelector('img')!;
  expect(picture.hidden).toBe(true);
  heard.get('msg:custom')!({ kind: 'still', why: 'blocked by the policy' }, [
    new DataView(new ArrayBuffer(4)),
  ]);
  expect([picture.hidden, picture.alt, el.querySelector('iframe')]).toMatchSnapshot();
  expect(picture.src).toMatch(/^blob:/);
  expect(el.querySelector('p')!.textContent).toBe('blocked by the policy');
  expect(model.set.mock.lastCall).toEqual(['state', 'blocked by the policy']);
  end();
  expect(heard.size).toBe(0);
});
