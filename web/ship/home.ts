/** Where the page will lie, which a build for GitHub Pages knows by itself. */
const {
  GITHUB_SERVER_URL: host,
  GITHUB_REPOSITORY: repository = '',
  SINKSCOPE_FOLDER: folder,
  SINKSCOPE_HOME: given,
} = process.env;
const [owner, name] = repository.split('/');

/** The repository's address; '' where the build does not know it, and the page has no link to its source. */
export const source = host && repository ? `${host}/${repository}` : '';

/** The page's address, in a folder of its site that site.ts knows; '' where the build does not know it. */
export const home =
  given ?? (source ? `https://${owner}.github.io/${name}/${folder ? `${folder}/` : ''}` : '');
