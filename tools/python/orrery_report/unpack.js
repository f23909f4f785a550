// Unpacks what the page keeps compressed (plotly.js, large tables), then starts the page's own scripts in their order.
(async function () {
  "use strict";
  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const replace = (old, type, text) => {
    const script = document.createElement("script");
    script.type = type;
    script.id = old.id;
    script.textContent = text;
    old.replaceWith(script);
  };
  try {
    for (const packed of document.querySelectorAll("script[data-packed]"))
      replace(packed, packed.dataset.packed, await unpacked(packed.textContent));
  } catch (error) {
    document.querySelector("main").insertAdjacentHTML("afterbegin",
      '<p class="note">This browser cannot unpack the plots of the page: Chrome 80, Firefox 113 and Safari 16.4 can, and later ones.</p>');
    throw error;
  }
  for (const late of document.querySelectorAll("script[type='text/late']")) replace(late, "", late.textContent);
  document.dispatchEvent(new Event("orrery-started"));
})();
