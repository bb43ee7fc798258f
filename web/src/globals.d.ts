/** Written by the build: where the engine and the models lie, below the page. */
declare const ENGINE: string;
declare const ZOO: string;
/** Where recordings lie, and their names. */
declare const RECORDINGS: string;
declare const SHIPPED: readonly string[];
/** Seeds whose logs lie beside a model of the zoo. */
declare const SEEDS: Readonly<Record<string, readonly number[]>>;
/** The lessons, in their order: pages below `learn/`. */
declare const LESSONS: readonly {
  readonly slug: string;
  readonly number: number;
  readonly title: string;
  readonly description: string;
  readonly minutes: number;
}[];
/** The repository's address where the build knows it, else empty. */
declare const SOURCE: string;
/** Whether plates lie beside the page, as they do beside what GitHub publishes. */
declare const PLATES: boolean;
/** The address of the page that the figures of the npm package link to; empty where the page lies beside the program. */
declare const HOME: string;
