/** Makes a lesson's page live: figures, numbers of their runs, guesses, and the reader's progress. */
import './learn.css';
import '../embed/element';
import './row_toy';
import './write_toy';
import { addCards } from './cards';
import { HeadCount } from './count';
import { showRun } from './live';
import { shareText } from './one_text';
import { askForGuess } from './predict';
import { markRead } from '../page/lessons';
import { countWords, readGuesses } from './verdict';
import { headScores, type Run } from './values';

const queryAll = <E extends HTMLElement>(selector: string) => [
  ...document.querySelectorAll<E>(selector),
];

const { lesson = '' } = document.body.dataset;
const lessonEnd = document.querySelector('.next-lesson');

const scoreLine = Object.assign(document.createElement('p'), { className: 'predict-count' });
scoreLine.setAttribute('role', 'status');
lessonEnd?.before(scoreLine);
const showScore = () => (scoreLine.textContent = countWords(readGuesses(), lesson));
const judgeAgain = queryAll('.predict').map((section, i) =>
  askForGuess(section, lesson, i, showScore),
);
showScore();

shareText(queryAll('sink-scope'));
addCards(queryAll<HTMLAnchorElement>('a.term'));

const headCounts = new Map<string, HeadCount>();
for (const place of queryAll('.head-count'))
  headCounts.set(place.dataset.figure!, new HeadCount(place));

addEventListener('run', (event) => {
  const { detail, target } = event as CustomEvent<Run>;
  const { id } = target as Element;
  const [firstResult] = detail.results;
  showRun(id, detail);
  for (const judge of judgeAgain) judge();
  if (firstResult) headCounts.get(id)?.setScores(headScores(firstResult), firstResult);
});
addEventListener('select', (event) => {
  const { detail, target } = event as CustomEvent<{ layer: number; head: number }>;
  if (detail) headCounts.get((target as Element).id)?.open(detail);
});

addEventListener('beforeprint', () => {
  for (const answer of queryAll<HTMLDetailsElement>('.predict details')) answer.open = true;
});

if (lesson && lessonEnd) {
  const watcher = new IntersectionObserver((entries) => {
    if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
    markRead(lesson);
    watcher.disconnect();
  });
  watcher.observe(lessonEnd);
}
