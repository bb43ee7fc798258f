// The build replaces these names by values (vite.config.ts, npm.config.ts).

/** The path of the engine's folder, below the page's address. */
declare const ENGINE: string;
/** The path of the folder of models, below the page's address. */
declare const ZOO: string;
/** The path of the folder of recordings, below the page's address. */
declare const RECORDINGS: string;
/** The names of the recordings. */
declare const SHIPPED: readonly string[];
/** For each model of the zoo, the seeds of long runs whose logs are shipped. */
declare const SEEDS: Readonly<Record<string, readonly number[]>>;
/** The lessons in the order of the course, each a page below `learn/`. */
declare const LESSONS: readonly {
  readonly slug: string;
  readonly number: number;
  readonly title: string;
  readonly description: string;
  readonly minutes: number;
}[];
/** The repository's address if the build knows it, else empty. */
declare const SOURCE: string;
/** Whether plates are shipped with the page, as in GitHub's releases. */
declare const PLATES: boolean;
/** The address of the page that the figures of the npm package link to; empty if the page is next to the program. */
declare const HOME: string;
