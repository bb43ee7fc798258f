/** Why it matters: the room of the experiments. */
import './panes.css';
import './tables.css';
import './purpose.css';

export { build } from '../experiments/bench';
