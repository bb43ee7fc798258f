/** The page's future address, which a build for GitHub Pages reads from its environment. */
const {
  GITHUB_SERVER_URL: host,
  GITHUB_REPOSITORY: repository = '',
  SINKSCOPE_FOLDER: folder,
  SINKSCOPE_HOME: given,
} = process.env;
const [owner, name] = repository.split('/');

/** The repository's address; '' if the build does not know it, and the page then has no link to its source. */
export const source = host && repository ? `${host}/${repository}` : '';

/** The page's address, in a folder of its site (site.ts); '' if the build does not know it. */
export const home =
  given ?? (source ? `https://${owner}.github.io/${name}/${folder ? `${folder}/` : ''}` : '');
