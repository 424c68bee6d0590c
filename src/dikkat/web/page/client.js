// Talks to the engine: in a worker, or in the page itself where the browser starts none.

const client = { pending: new Map(), nextId: 1, send: null, hasWorker: false };

function startEngine() {
  try {
    const source = document.getElementById("engine").textContent;
    const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    worker.onmessage = ({ data }) => hear(data);
    // a browser may refuse only now; what was asked is asked again
    worker.onerror = () => {
      startInPage();
      for (const { message } of client.pending.values()) client.send(message);
    };
    client.send = (message) => worker.postMessage(message);
    client.hasWorker = true;
  } catch {
    startInPage();
  }
}

function startInPage() {
  const service = new globalThis.DikkatService((message) => setTimeout(() => hear(message)));
  client.hasWorker = false;
  client.send = (message) => service.receive(message);
}

function hear({ id, part, answer, error }) {
  const question = client.pending.get(id);
  if (!question) return; // about a sentence that is gone
  if (part) return question.show(part);
  client.pending.delete(id);
  if (error === undefined) question.resolve(answer);
  else question.reject(new Error(error));
}

// The answer to a question; `show` hears parts of it before. A new text leaves what was asked about the last one open.
function request(task, question, show = () => {}) {
  const message = { ...question, id: client.nextId++, task };
  if (message.isNew) client.pending.clear();
  return new Promise((resolve, reject) => {
    client.pending.set(message.id, { resolve, reject, show, message });
    client.send(message);
  });
}
