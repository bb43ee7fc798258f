import './style.css';
import { keepForOffline } from './offline';
import { startPage } from './page';

// What stood here for those who cannot run this.
document.querySelector('#plain')?.remove();
startPage(document.body.classList.contains('embed'));
keepForOffline();
