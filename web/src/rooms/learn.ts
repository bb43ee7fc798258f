/** The room Learn: a list of the lessons, each with a page of its own, marked if read. */
import { html, nothing, render } from 'lit';
import { lessonLink, readLessons } from '../page/lessons';
import type { Context, Scope } from '../page/context';
import './learn.css';

export function build(root: HTMLElement, _context: Context, scope: Scope): void {
  const draw = () => {
    const readSlugs = readLessons();
    const nextLesson = LESSONS.find(({ slug }) => !readSlugs.includes(slug)) ?? LESSONS[0];
    const minutes = LESSONS.reduce((sum, lesson) => sum + lesson.minutes, 0);
    render(
      html`<div class="room-head">
          <h1>Learn about attention sinks in ${LESSONS.length} lessons</h1>
          <p class="lead">
            Each lesson asks one question and answers it with figures that you operate. All of them
            take about ${minutes} minutes; you need to know what a matrix is.
          </p>
        </div>
        <ol class="lessons">
          ${LESSONS.map(
            ({ slug, number, title, description, minutes: lessonMinutes }) =>
              html`<li>
                <h2><a href=${lessonLink(slug)}>${number}. ${title}</a></h2>
                <p>${description}</p>
                <p class="hint">
                  ${lessonMinutes} minutes${readSlugs.includes(slug) ? ' · read' : nothing}
                </p>
              </li>`,
          )}
        </ol>
        <p class="lessons-go">
          ${
            nextLesson
              ? html`<a class="button primary" href=${lessonLink(nextLesson.slug)}
                  >${readSlugs.length ? 'Continue with' : 'Start with'} lesson
                  ${nextLesson.number}</a
                >`
              : nothing
          }
          <a href=${lessonLink('glossary')}>Glossary</a>
        </p>`,
      root,
    );
  };
  draw();
  // A reader may return from a lesson, which is then marked as read.
  addEventListener('pageshow', draw);
  scope.onEnd(() => removeEventListener('pageshow', draw));
}
