/** The parts of a lesson that follow a figure's run: its numbers, and the sentences that are true of it. */
import { isTrue } from './conditions';
import { formattedValue, type Run } from './values';

/** Writes the numbers of a figure's run into the lesson, and shows only the sentences that are true of it. */
export function showRun(figure: string, { results }: Pick<Run, 'results'>): void {
  const placesOf = <E extends HTMLElement>(selector: string) =>
    document.querySelectorAll<E>(`${selector}[data-figure="${CSS.escape(figure)}"]`);
  for (const place of placesOf<HTMLOutputElement>('output'))
    place.value = formattedValue(place.dataset.value!, results);
  for (const place of placesOf('.when'))
    place.hidden = !isTrue(place.dataset.if!, (name) => formattedValue(name, results));
}
