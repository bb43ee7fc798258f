import type { Architecture } from './types.ts';

/** Returns the model's own number of attention layer i. */
export const layerNumber = ({ layers }: Pick<Architecture, 'layers'>, i: number) =>
  layers?.[i] ?? i;
