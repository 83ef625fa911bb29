// The legend hides and shows policies; headers of tables sort them.
for (const b of document.querySelectorAll("[data-toggle]")) {
  b.addEventListener("click", () => {
    const on = b.getAttribute("aria-pressed") !== "true";
    b.setAttribute("aria-pressed", on);
    for (const e of document.querySelectorAll(`[data-p="${b.dataset.toggle}"]`)) e.classList.toggle("off", !on);
  });
}
for (const th of document.querySelectorAll("th")) {
  th.addEventListener("click", () => {
    const body = th.closest("table").tBodies[0], at = th.cellIndex;
    const value = (r) => {
      const s = r.cells[at].firstChild ? r.cells[at].firstChild.textContent : "";
      return s !== "" && Number.isFinite(Number(s)) ? Number(s) : s;
    };
    const down = th.dataset.down !== "true";
    th.dataset.down = down;
    const rows = [...body.rows].sort((a, b) => {
      const x = value(a), y = value(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? 1 : -1);
    });
    body.append(...rows);
  });
}
