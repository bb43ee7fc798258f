/**
 * A figure as an anywidget module, for hosts that take such modules instead of HTML, as Jupyter Book 2 does. The host
 * copies this file to its own site, so the file imports nothing by a relative path; the model names the element's
 * script.
 */
type AnyModel = { get(name: 'script' | 'attributes' | 'content'): unknown };

/** The placeholder until the figure is drawn, or if its script cannot be loaded. */
interface Content {
  readonly link: string;
  readonly picture: string;
  readonly width: string;
  readonly title: string;
}

function placeholderOf({ link, picture, width, title }: Content): HTMLElement {
  const image = Object.assign(document.createElement('img'), { src: picture, alt: title });
  image.setAttribute('width', width);
  const anchor = Object.assign(document.createElement('a'), { href: link });
  anchor.append(image);
  return anchor;
}

async function render({
  model,
  el,
}: {
  readonly model: AnyModel;
  readonly el: HTMLElement;
}): Promise<() => void> {
  const figure = document.createElement('sink-scope');
  for (const [name, value] of Object.entries(model.get('attributes') as object))
    figure.setAttribute(name, String(value));
  const content = model.get('content') as Content | undefined;
  if (content) figure.append(placeholderOf(content));
  el.append(figure);
  const script = String(model.get('script'));
  await import(/* @vite-ignore */ script).catch(() =>
    figure.append(
      `Not shown: this page could not load ${script}. Its server may not allow other sites to ` +
        '(Access-Control-Allow-Origin).',
    ),
  );
  return () => figure.remove();
}

export default { render };
