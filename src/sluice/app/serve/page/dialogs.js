// Dialogs of this page and the fleet's: what happens when one is sent, and the one that asks for the token.

import { call, element } from "./api.js";

// A form's failure is shown in the dialog where that has a place for it, else by `report`.
export function onSubmit(name, work, report) {
  const [dialog, fault, form] = ["dialog", "fault", "form"].map((part) => document.getElementById(`${name}-${part}`));
  dialog.querySelector(".cancel")?.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (fault) fault.hidden = true;
    try {
      await work();
      form.reset();
      dialog.close();
    } catch (error) {
      if (!fault) return report(error);
      fault.textContent = error.message;
      fault.hidden = false;
    }
  });
}

// Makes the dialog, and returns what shows it; `entered` is called when the token was right.
export function tokenDialog(explanation, entered) {
  const user = element("input", { type: "text", autocomplete: "username", defaultValue: "sluice", readOnly: true, hidden: true });
  const token = element("input", { id: "login-token", type: "password", required: true, autocomplete: "current-password" });
  const fault = element("p", { className: "fault", id: "login-fault", hidden: true });
  fault.setAttribute("role", "alert");
  const dialog = element("dialog", { id: "login-dialog" },
    element("form", { id: "login-form" },
      element("h2", { id: "login-title", textContent: "Token" }),
      element("p", { textContent: explanation }),
      user,
      element("label", { htmlFor: "login-token", textContent: "Token" }),
      token,
      fault,
      element("div", { className: "buttons" }, element("button", { type: "submit", className: "primary", textContent: "Enter" }))));
  dialog.setAttribute("aria-labelledby", "login-title");
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  document.body.append(dialog);
  onSubmit("login", async () => {
    await call("POST", "/api/session", { token: token.value });
    entered();
  });
  return () => dialog.open || dialog.showModal();
}
