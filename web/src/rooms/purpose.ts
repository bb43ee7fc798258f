/** Why it matters: the experiments, with what a room of them looks like. */
import './panes.css';
import './tables.css';
import './purpose.css';

export { build } from '../experiments/bench';
