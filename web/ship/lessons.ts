/** The course: a page for each lesson, and a glossary, which need no JavaScript; with it, figures are live. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Plugin } from 'vite';
import { TERMS } from '../src/page/glossary.ts';
import { anchorOf } from './terms.ts';
import { HOME, lessonOf, ORDER, type Lesson } from './markdown.ts';

const root = resolve(import.meta.dirname, '..');
const folder = join(root, 'lessons');

export function readLesson(slug: string, source: string): Lesson {
  try {
    return lessonOf(slug, source);
  } catch (error) {
    const isDeep = error instanceof RangeError;
    const words = isDeep
      ? 'expected fewer quotes or lists in one another.'
      : (error as Error).message;
    throw new Error(`lessons/${slug}.md: ${words}`, { cause: error });
  }
}

export function lessons(): Lesson[] {
  const unlistedFiles = readdirSync(folder).filter(
    (file) => file.endsWith('.md') && !ORDER.includes(file.replace('.md', '')),
  );
  if (unlistedFiles.length)
    throw new Error(`lessons/order.json does not list ${unlistedFiles.join(', ')}.`);
  return ORDER.map((slug) => readLesson(slug, readFileSync(join(folder, `${slug}.md`), 'utf8')));
}

export const lessonSummary = ({ slug, number, title, description, minutes }: Lesson) => ({
  ...{ slug, number, title, description, minutes },
});

export const escapeHtml = (text: string) =>
  text.replace(
    /[&<>"]/g,
    (character) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[character]!,
  );

function page(title: string, slug: string, main: string): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>${escapeHtml(title)} · Sinkscope</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="/src/learn/learn.css" />
  </head>
  <body data-lesson="${escapeHtml(slug)}">
    <a class="skip" href="#main">Skip to the lesson</a>
    <header>
      <a class="brand" href="${HOME}">Sinkscope</a>
      <nav aria-label="Course">
        <a href="${HOME}#room=learn">All lessons</a>
        <a href="../glossary/index.html">Glossary</a>
      </nav>
    </header>
    <main id="main" tabindex="-1">${main}</main>
    <script type="module" src="/src/learn/page.ts"></script>
  </body>
</html>
`;
}

function lessonPage(lesson: Lesson, all: readonly Lesson[]): string {
  const { slug, number, title, description, minutes, html } = lesson;
  const nextLesson = all.find((lesson) => lesson.number > number);
  const nextLink = nextLesson
    ? `<p class="next-lesson">Next: <a href="../${nextLesson.slug}/index.html">Lesson ${nextLesson.number}. ${escapeHtml(nextLesson.title)}</a></p>`
    : `<p class="next-lesson">This was the last lesson. <a href="${HOME}#room=explore">Explore it yourself</a></p>`;
  return page(
    title,
    slug,
    `<article>
<h1>${escapeHtml(title)}</h1>
<p class="lesson-facts">Lesson ${number} of ${all.length} · ${minutes} minutes</p>
<p class="standfirst">${escapeHtml(description)}</p>
${html}
${nextLink}
</article>`,
  );
}

function glossaryPage(): string {
  const items = [...TERMS]
    .sort((a, b) => a.term.localeCompare(b.term, 'en'))
    .map(
      ({ term, meaning }) =>
        `<dt id="${anchorOf(term)}">${escapeHtml(term)}</dt><dd>${escapeHtml(meaning)}</dd>`,
    );
  return page(
    'Glossary',
    '',
    `<article><h1>Glossary</h1><p class="standfirst">The terms of the page and of its lessons, a sentence each.</p><dl class="glossary">${items.join('\n')}</dl></article>`,
  );
}

/** Returns the HTML of the course's pages by their paths; throws on a problem of a lesson. */
export function pages(): Readonly<Record<string, string>> {
  const allLessons = lessons();
  const problems = allLessons.flatMap(({ slug, problems: lessonProblems }) =>
    lessonProblems.map((problem) => `web/lessons/${slug}.md, ${problem}`),
  );
  // The build for lessons/draw.mjs allows problems, since that script redraws outdated pictures.
  if (problems.length && !process.env.SINKSCOPE_DRAWS) throw new Error(problems.join('\n'));
  return {
    ...Object.fromEntries(
      allLessons.map((lesson) => [
        `learn/${lesson.slug}/index.html`,
        lessonPage(lesson, allLessons),
      ]),
    ),
    'learn/glossary/index.html': glossaryPage(),
  };
}

export const isCoursePage = (path: string) => path.startsWith('/learn/');

/** Returns a plugin that gives Vite the pages of the course as if they were files of its root. */
export function course(): Plugin {
  const files = new Map(Object.entries(pages()).map(([file, html]) => [resolve(root, file), html]));
  return {
    name: 'course',
    enforce: 'pre',
    config: () => ({
      define: { LESSONS: JSON.stringify(lessons().map(lessonSummary)) },
      build: {
        rollupOptions: {
          input: Object.fromEntries(
            [...files.keys()].map((file) => [
              file.slice(root.length + 1).replace('/index.html', ''),
              file,
            ]),
          ),
        },
      },
    }),
    resolveId: (id) => (files.has(id) ? id : undefined),
    load: (id) => files.get(id),
  };
}
