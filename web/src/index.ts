import './style.css';
import { startPage } from './page';

startPage(document.body.classList.contains('embed'));
