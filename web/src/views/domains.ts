/** Draws Sink_1 of each prompt, grouped by label, to show whether the sink depends on the domain of the text. */
import { html, render, svg } from 'lit';
import { deviation, mean, sinkName, type Frame } from '../frame';
import { formatPercent } from '../words';
import { linesTable } from '../page/tables';
import { addElement, setText, type View } from '../page/view';

export function groupsIn(frame: Pick<Frame, 'groups' | 'perPrompt' | 'operation'>) {
  const { groups = [], perPrompt } = frame;
  const values = perPrompt[sinkName(frame)] ?? [];
  return [...new Set(groups)].map((label) => {
    const labelValues = values.filter((_, i) => groups[i] === label);
    return {
      label,
      values: labelValues,
      mean: mean(labelValues),
      deviation: deviation(labelValues),
    };
  });
}

type Group = ReturnType<typeof groupsIn>[number];

const spreadWords = (group: Group) =>
  Number.isFinite(group.deviation) ? ` ± ${formatPercent(group.deviation)}` : '';
const groupWords = (group: Group) =>
  `“${group.label}” (${formatPercent(group.mean)}${spreadWords(group)}, ${group.values.length} prompt${group.values.length === 1 ? '' : 's'})`;
const [WIDTH, HEIGHT, EDGE] = [240, 20, 6];
const xOf = (share: number) => EDGE + share * (WIDTH - 2 * EDGE);
const drawDot = (share: number) => svg`<circle r="2.6" cx=${xOf(share)} cy="10"></circle>`;
const drawStrip = (group: Group) =>
  html`<svg class="strip" viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true">
    <line class="axis" x1="0" x2=${WIDTH} y1="10" y2="10"></line>
    <line class="mean" x1=${xOf(group.mean)} x2=${xOf(group.mean)} y1="3" y2="17"></line>
    ${group.values.map(drawDot)}
  </svg>`;

export const domains: View = {
  name: 'domains',
  title: 'Sink by label',
  question: 'Does the sink depend on what the text is about?',
  how:
    'Sink₁ of each prompt as a dot, from 0 to 100%, and the mean of each label. A label is the text before the ' +
    'tab in a line of a file or of your text: “label, tab, text”.',
  formula: 'Sink₁: share of heads with α₁ > ε',
  source: 'Gu et al., ICLR 2025, figure 9',
  reads: ['sink_ratio'],
  fits: ({ groups }) => groups !== undefined,
  numbers: (frame) =>
    groupsIn(frame).map(({ label, values }) => ({
      name: `sink_1 of ${label}`,
      axes: ['prompt'],
      shape: [values.length],
      data: Float32Array.from(values),
    })),
  says: (frame) => {
    const groups = groupsIn(frame);
    const sortedGroups = groups.toSorted((a, b) => b.mean - a.mean);
    const [largest, smallest] = [sortedGroups[0], sortedGroups.at(-1)];
    if (!largest || !smallest || groups.some(({ mean: groupMean }) => !Number.isFinite(groupMean)))
      return '';
    if (formatPercent(largest.mean) === formatPercent(smallest.mean))
      return `Sink₁ is ${formatPercent(largest.mean)} for every label; ± is the standard deviation over prompts.`;
    const spreadNote = [largest, smallest].some(spreadWords)
      ? '; ± is the standard deviation over prompts'
      : '';
    return `Sink₁ is largest for ${groupWords(largest)} and smallest for ${groupWords(smallest)}${spreadNote}.`;
  },
  draw(root) {
    const table = addElement(root, 'table-place');
    const captionElement = addElement(root, 'caption', 'p');
    return (frame) => {
      setText(captionElement, domains.says(frame, { layer: 0, head: 0 }));
      const lines = groupsIn(frame).map((group) => ({
        title: group.label,
        cells: [drawStrip(group), `${formatPercent(group.mean)}${spreadWords(group)}`],
      }));
      render(linesTable('seeds labels', '', ['Label', 'Sink₁, 0-100%', 'Mean'], lines), table);
    };
  },
};
