/** Addresses of the engine and the models below the page, which the build writes. */
declare const ENGINE: string;
declare const ZOO: string;
/** The address of the recordings, and their names. */
declare const RECORDINGS: string;
declare const SHIPPED: readonly string[];
/** Seeds whose logs are shipped with a model of the zoo. */
declare const SEEDS: Readonly<Record<string, readonly number[]>>;
/** The lessons, in their order: pages below `learn/`. */
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
