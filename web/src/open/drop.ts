/** Opens models that are dropped onto the page. */
import type { DiskFile } from 'sinkscope';
import type { Opener } from './opener';

/** The browser clears the items of a drop at the first await, so this reads their entries before it. */
async function filesOf(items: readonly DataTransferItem[]): Promise<DiskFile[]> {
  const entries = items.map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  const { filesOfDrop } = await import('../ask/outside');
  const kept = entries.map((entry) => ({
    kind: 'file' as const,
    webkitGetAsEntry: () => entry,
    getAsFile: () => null,
  }));
  return filesOfDrop({ items: kept });
}

/** Accepts drops anywhere on the page, so that a dropped file never replaces the page in the tab. */
export function acceptDrops(opener: Opener): void {
  document.addEventListener('dragover', (event) => event.preventDefault());
  document.addEventListener('drop', (event) => {
    event.preventDefault();
    const files = [...(event.dataTransfer?.items ?? [])].filter(({ kind }) => kind === 'file');
    if (files.length) void opener.openFiles(filesOf(files));
  });
}
