/** Opens models that are dropped onto the page. */
import { filesOfDrop } from 'sinkscope';
import type { Opener } from './opener';

/** Accepts drops anywhere on the page, so that a dropped file never replaces the page in the tab. */
export function acceptDrops(opener: Opener): void {
  document.addEventListener('dragover', (event) => event.preventDefault());
  document.addEventListener('drop', (event) => {
    event.preventDefault();
    const transfer = event.dataTransfer;
    const hasFiles = [...(transfer?.items ?? [])].some(({ kind }) => kind === 'file');
    if (transfer && hasFiles) void opener.openFiles(filesOfDrop(transfer));
  });
}
