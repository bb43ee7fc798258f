/** Draws views that consist of a chart and a caption below it. */
import type { Frame } from '../frame';
import { drawChart, type ChartData } from '../plot/chart';
import { addElement, setText, type DrawOptions, type View } from '../page/view';

/**
 * Returns the draw function of a view.
 * @param captionOf returns the caption, which `chartOf` gets to describe the chart
 */
export function createChartDraw(
  captionOf: (frame: Frame, options: DrawOptions) => string,
  chartOf: (frame: Frame, options: DrawOptions, caption: string) => ChartData,
): View['draw'] {
  return (root) => {
    const chart = addElement(root, 'chart');
    const captionElement = addElement(root, 'caption', 'p');
    return (frame, options) => {
      const caption = captionOf(frame, options);
      setText(captionElement, caption);
      drawChart(chart, chartOf(frame, options, caption));
    };
  };
}
