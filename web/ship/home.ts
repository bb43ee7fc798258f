/** The addresses that the page will have, which a build for GitHub Pages reads from its environment. */
const {
  GITHUB_SERVER_URL: host,
  GITHUB_REPOSITORY: repository = '',
  SINKSCOPE_FOLDER: folder,
  SINKSCOPE_HOME: givenHome,
} = process.env;
const [owner, name] = repository.split('/');

export const source = host && repository ? `${host}/${repository}` : '';

/** The address of the page's folder on its site (site.ts), '' if unknown. */
export const home =
  givenHome ?? (source ? `https://${owner}.github.io/${name}/${folder ? `${folder}/` : ''}` : '');
