// The build replaces these names by values (vite.config.ts, npm.config.ts).

declare const ENGINE: string;
declare const ZOO: string;
declare const RECORDINGS: string;
declare const SHIPPED: readonly string[];
/** For each model of the zoo, the seeds of the long runs whose logs are shipped. */
declare const SEEDS: Readonly<Record<string, readonly number[]>>;
/** The claims of papers whose effect on the sink our runs measured (models/claims.json). */
declare const CLAIMS: readonly import('./rooms/chapters').TestedClaim[];
/** In the order of the course; each is a page below `learn/`. */
declare const LESSONS: readonly {
  readonly slug: string;
  readonly number: number;
  readonly title: string;
  readonly description: string;
  readonly minutes: number;
}[];
/** The address of the repository; empty if the build does not know it. */
declare const SOURCE: string;
/** The address of the page that the npm package's figures link to; empty if the page is in the program's folder. */
declare const HOME: string;
