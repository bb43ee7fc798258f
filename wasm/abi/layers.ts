import type { Architecture } from './types.ts';

/** Returns the index, among all layers of the model, of its i-th layer with attention. */
export const layerNumber = ({ layers }: Pick<Architecture, 'layers'>, i: number) =>
  layers?.[i] ?? i;
