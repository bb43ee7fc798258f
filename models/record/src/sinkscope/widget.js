// Shows a recording in a notebook: runs <sink-scope> in a frame of its own, without any server.
//
// The frame is sandboxed and has no origin. For each view, Python sends the element's modules and the recording once.
// An import map gives the modules their addresses, and a replacement of `fetch` gives the element its files. The
// engine computes in the frame, without workers, which is fast enough because a recording is already measured.
const FRAME_SCRIPT = `
addEventListener('message', async ({ data }) => {
  if (data?.sinkscope !== 'open') return;
  const send = (kind, detail) => parent.postMessage({ sinkscope: kind, detail }, '*');
  try {
    const { element, recording, views, attributes } = data;
    const createUrl = (parts, type) => URL.createObjectURL(new Blob(parts, { type }));
    const gunzip = (bytes) =>
      new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
    const imports = {};
    for (const [address, text] of Object.entries(element.modules))
      imports[address] = createUrl([text], 'text/javascript');
    const files = {};
    for (const [address, text] of Object.entries(element.files))
      files[address] = createUrl(
        [await gunzip(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)))],
        address.endsWith('.wasm') ? 'application/wasm' : 'application/json',
      );
    const recordingUrl = createUrl([recording], 'application/octet-stream');
    const originalFetch = globalThis.fetch;
    globalThis.fetch = (resource, init) => {
      const address = String(resource.url ?? resource);
      const url = address.endsWith('/notebook.safetensors') ? recordingUrl : files[address];
      return url ? originalFetch(url, init) : Promise.reject(new TypeError('no such file: ' + address));
    };
    globalThis.Worker = undefined;
    const importMap = document.createElement('script');
    importMap.type = 'importmap';
    importMap.textContent = JSON.stringify({ imports });
    document.head.append(importMap);
    await import(Object.keys(imports).find((address) => address.endsWith('/sink-scope.js')));
    const figures = views.map((view) => {
      const figure = document.createElement('sink-scope');
      figure.setAttribute('view', view);
      return figure;
    });
    const setAttributes = (attributes) => {
      for (const figure of figures)
        for (const [name, value] of Object.entries(attributes))
          if (figure.getAttribute(name) !== String(value)) figure.setAttribute(name, value);
    };
    setAttributes(attributes);
    for (const figure of figures) {
      for (const kind of ['run', 'error'])
        figure.addEventListener(kind, ({ detail }) => send(kind, JSON.parse(JSON.stringify(detail))));
      // A selection in one figure applies to all figures.
      figure.addEventListener('select', ({ detail }) => {
        setAttributes(Object.fromEntries(Object.entries(detail).filter(([, index]) => Number.isInteger(index))));
        send('select', JSON.parse(JSON.stringify(detail)));
      });
    }
    addEventListener('message', ({ data }) => {
      if (data?.sinkscope === 'set') setAttributes(data.attributes);
    });
    document.body.append(...figures);
  } catch (error) {
    send('error', { message: String(error) });
  }
});
parent.postMessage({ sinkscope: 'ready' }, '*');
`;
const SELECTION_NAMES = ['layer', 'head', 'query', 'key'];

function render({ model, el, signal }) {
  const frame = document.createElement('iframe');
  frame.setAttribute('sandbox', 'allow-scripts allow-downloads');
  frame.title = model.get('title');
  frame.style.cssText = `display: block; width: 100%; height: ${model.get('height')}px; border: 0;`;
  frame.srcdoc = `<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light">
    <style>
      body { margin: 0; font: 14px system-ui, sans-serif; display: grid; gap: 0 24px; align-items: start;
        grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); }
      sink-scope { max-height: 100vh; overflow: auto; }
    </style><script>${FRAME_SCRIPT}</script>`;
  const stillImage = document.createElement('img');
  stillImage.alt = model.get('title');
  stillImage.style.maxWidth = '100%';
  stillImage.hidden = true;
  const note = document.createElement('p');
  note.hidden = true;
  el.append(frame, stillImage, note);

  let bundle;
  let isReady = false;
  const post = (message) => frame.contentWindow?.postMessage(message, '*');
  const readAttributes = () => ({
    shown: 'recording:notebook.safetensors',
    ...Object.fromEntries(SELECTION_NAMES.map((name) => [name, String(model.get(name))])),
  });
  const open = () => {
    if (!isReady || !bundle) return;
    post({
      sinkscope: 'open',
      ...bundle,
      views: model.get('view').split(','),
      attributes: readAttributes(),
    });
    bundle = undefined;
  };
  const report = (state) => {
    model.set('state', state);
    model.save_changes();
  };
  const showStillImage = (reason, picture) => {
    if (picture) {
      stillImage.src = URL.createObjectURL(new Blob([picture], { type: 'image/png' }));
      stillImage.hidden = false;
      frame.remove();
    }
    note.textContent = reason;
    note.hidden = false;
    report(reason);
  };
  const handleMessage = ({ source, data }) => {
    if (!frame.contentWindow || source !== frame.contentWindow) return;
    if (data?.sinkscope === 'ready') isReady = true;
    if (data?.sinkscope === 'ready') open();
    if (data?.sinkscope === 'run') report('drawn');
    if (data?.sinkscope === 'error') model.send({ request: 'still', why: data.detail.message });
    if (data?.sinkscope === 'select') {
      model.set('selection', data.detail);
      for (const name of SELECTION_NAMES) if (Number.isInteger(data.detail[name])) model.set(name, data.detail[name]);
      model.save_changes();
    }
  };
  const handleCustomMessage = (message, buffers) => {
    if (message.kind === 'element') {
      const [element, recording] = buffers.map(
        ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength),
      );
      bundle = { element: JSON.parse(new TextDecoder().decode(element)), recording: recording.slice() };
      open();
    }
    if (message.kind === 'still') {
      const [{ buffer, byteOffset, byteLength }] = buffers;
      showStillImage(message.why, new Uint8Array(buffer, byteOffset, byteLength));
    }
  };
  const postAttributes = () => post({ sinkscope: 'set', attributes: readAttributes() });
  addEventListener('message', handleMessage);
  model.on('msg:custom', handleCustomMessage);
  for (const name of SELECTION_NAMES) model.on(`change:${name}`, postAttributes);
  model.send({ request: 'element' });
  return () => {
    removeEventListener('message', handleMessage);
    model.off('msg:custom', handleCustomMessage);
    for (const name of SELECTION_NAMES) model.off(`change:${name}`, postAttributes);
  };
}

export default { render };
