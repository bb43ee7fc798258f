import './style.css';
import { keepForOffline } from './offline';
import { startPage } from './page';

startPage(document.body.classList.contains('embed'));
keepForOffline();
