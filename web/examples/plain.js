const figure = document.querySelector('sink-scope');
const said = document.querySelector('#said');

figure.addEventListener('run', ({ detail }) => {
  said.textContent = detail.results.map((result) => `${result.title}: T = ${result.T}`).join('; ');
});
figure.addEventListener('error', ({ detail }) => (said.textContent = detail.message));
document.querySelector('#short').addEventListener('click', () => {
  figure.prompt = 'The old man sat at the door.';
});
