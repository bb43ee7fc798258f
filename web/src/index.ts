import './style.css';
import { tellHeight } from './embed/height';
import { keepForOffline } from './offline';
import { offer, startPage } from './page';
import { trustOwnScripts } from './trust';

trustOwnScripts();
// What stood here for those who cannot run this.
document.querySelector('#plain')?.remove();
const isEmbed = document.body.classList.contains('embed');
startPage(isEmbed);
if (isEmbed) tellHeight();
keepForOffline(offer);
