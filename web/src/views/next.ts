/** Lists the most probable next tokens. */
import { html, render } from 'lit';
import { predictsNext } from '../frame';
import { labeledQuantity } from '../save/numbers';
import { formatPercent, makeReadable, formatValue } from '../words';
import { addElement, setText, type View } from '../page/view';

export const next: View = {
  name: 'next',
  title: 'Output',
  question: 'Which token comes next?',
  how: 'The most probable next tokens, and how well the model predicts the text.',
  reads: ['loss_mean'],
  optional: ['next'],
  fits: predictsNext,
  numbers: ({ next: predictions }) => [
    {
      ...labeledQuantity(
        'probability',
        'rank',
        predictions.map(({ text, probability }) => [text, probability]),
      ),
      sequences: 1,
    },
  ],
  says: ({ tensors, sequences, generated, lacks }) => {
    const loss = tensors.loss_mean!.data[0]!;
    return (
      `Mean loss ${formatValue(loss, 3)} nats per token (perplexity ${formatValue(Math.exp(loss), 1)})` +
      (sequences > 1
        ? ` over all prompts${lacks?.next ? '' : '; the list continues the first one'}`
        : '') +
      (lacks?.next ? '; the next tokens are not recorded' : '') +
      (generated ? `; ${generated} of the tokens are generated` : '')
    );
  },
  draw(root) {
    const list = addElement(root, 'next', 'ol');
    const captionElement = addElement(root, 'caption', 'p');
    return (frame, { at }) => {
      const [mostLikely] = frame.next;
      render(
        frame.next.map(
          ({ text, probability }) =>
            html`<li style="--share: ${probability / mostLikely!.probability}">
              <span>${makeReadable(text)}</span><span>${formatPercent(probability)}</span>
            </li>`,
        ),
        list,
      );
      setText(captionElement, next.says(frame, at));
    };
  },
};
