/**
 * A figure as an anywidget module, for hosts that take these in the place of HTML, as Jupyter Book 2 does. Such a host
 * copies this file to its own site, so that it imports nothing by itself: the model names the script of the element.
 */
interface AnyModel {
  get(name: 'script' | 'attributes'): unknown;
}

async function render({
  model,
  el,
}: {
  readonly model: AnyModel;
  readonly el: HTMLElement;
}): Promise<() => void> {
  await import(/* @vite-ignore */ String(model.get('script')));
  const figure = document.createElement('sink-scope');
  for (const [name, value] of Object.entries(model.get('attributes') as object))
    figure.setAttribute(name, String(value));
  el.append(figure);
  return () => figure.remove();
}

export default { render };
