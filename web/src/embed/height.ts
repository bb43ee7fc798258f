/**
 * embed.html in a frame reports its height. A height is no secret, so any holder of the frame may read it;
 * sink-scope.js in the holder's page listens to frames of this site alone.
 */
export function reportHeight(): void {
  if (parent === window) return;
  let last = 0;
  new ResizeObserver(() => {
    const height = Math.ceil(document.body.getBoundingClientRect().height);
    if (height === last) return;
    last = height;
    parent.postMessage({ sinkscope: 'height', height }, '*');
  }).observe(document.body);
}
