import './style.css';
import { tellHeight } from './embed/height';
import { keepForOffline } from './page/offline';
import { offer, startPage } from './page/page';
import { trustOwnScripts } from './page/trust';

trustOwnScripts();
// What stood here for those who cannot run this.
document.querySelector('#plain')?.remove();
const isEmbed = document.body.classList.contains('embed');
startPage(isEmbed);
if (isEmbed) tellHeight();
keepForOffline(offer);
