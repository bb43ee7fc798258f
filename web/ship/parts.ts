/** Copies binaries and zoo, under addresses with a hash, so that a page never reads those of another build. */
import { createHash } from 'node:crypto';
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}

function digest(folder: string, files: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of files)
    hash.update(`${file}\0`).update(
      createHash('sha256')
        .update(readFileSync(join(folder, file)))
        .digest(),
    );
  return hash.digest('hex').slice(0, 10);
}

/** A folder that is shipped with the page. */
export class Part {
  readonly path: string;
  readonly files: readonly string[];
  readonly #folder: string;

  constructor(
    name: string,
    from: string,
    isIncluded: (file: string) => boolean = () => true,
    path?: string,
  ) {
    this.#folder = from;
    this.files = filesOf(from).filter(isIncluded);
    this.path = path ?? `${name}/${digest(from, this.files)}/`;
  }

  sourceOf(name: string): string {
    return join(this.#folder, name);
  }

  copyTo(out: string): void {
    for (const file of this.files)
      cpSync(join(this.#folder, file), join(out, this.path, file), { recursive: true });
  }
}

export function seedsByModel(files: readonly string[]): Record<string, number[]> {
  const seeds: Record<string, number[]> = {};
  for (const file of files) {
    const [, id, seed] = /^([\w-]+)\/seeds\/(\d+)\.json$/.exec(file) ?? [];
    if (id) (seeds[id] ??= []).push(Number(seed));
  }
  return seeds;
}
