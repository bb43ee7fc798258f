/** Written by the build: where the engine and the models lie, below the page. */
declare const ENGINE: string;
declare const ZOO: string;
