/** What the model would say next. */
import { isBidirectional } from '../frame';
import { readable, percent, show } from '../words';
import { part, type ViewKind } from './view';

export const next: ViewKind = {
  name: 'next',
  title: 'Next token',
  averaged: true,
  how: 'The likeliest continuations after the last token, and how well the text was predicted.',
  numbers: ({ next }) => [
    {
      name: 'probability',
      axes: ['rank'],
      shape: [next.length],
      data: next.map(({ probability }) => probability),
      labels: next.map(({ text }) => text),
    },
  ],
  create(root) {
    const list = part(root, 'next', 'ol');
    const small = part(root, 'conditions', 'p');
    return {
      update(frame) {
        const most = frame.next[0]?.probability ?? 1;
        list.replaceChildren(
          ...frame.next.map(({ text, probability }) => {
            const item = document.createElement('li');
            item.style.setProperty('--share', String(probability / most));
            const word = document.createElement('span');
            word.textContent = readable(text);
            const value = document.createElement('span');
            value.textContent = percent(probability);
            item.append(word, value);
            return item;
          }),
        );
        const loss = frame.tensors.loss_mean.data[0];
        const none = 'Every token sees every other: there is no next one to predict. ';
        small.textContent =
          (isBidirectional(frame) ? none : '') +
          `mean loss ${show(loss, 3)} nat per token (perplexity ${show(Math.exp(loss), 1)})` +
          (frame.sequences > 1 ? ', of all sequences; the first of them is continued' : '') +
          (frame.generated ? `, ${frame.generated} of the tokens generated` : '');
      },
    };
  },
};
