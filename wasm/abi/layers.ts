import type { Architecture } from './types.ts';

/** The model's number of layer i of those with attention. */
export const layerNumber = ({ layers }: Pick<Architecture, 'layers'>, i: number) =>
  layers?.[i] ?? i;
