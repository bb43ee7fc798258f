const figure = document.querySelector('sink-scope');
const output = document.querySelector('#said');

figure.addEventListener('run', ({ detail }) => {
  output.textContent = detail.results
    .map((result) => `${result.title}: T = ${result.T}`)
    .join('; ');
});
figure.addEventListener('error', ({ detail }) => (output.textContent = detail.message));
document.querySelector('#short').addEventListener('click', () => {
  figure.prompt = 'The old man sat at the door.';
});
