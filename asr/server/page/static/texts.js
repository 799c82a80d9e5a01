// The words of the page in each language.

import { filled, text, useTexts } from "./language.js";

const TEXTS = {
  en: {
    other: "中文",
    input: "Audio",
    result: "Transcript",
    record: "Record",
    stop: "Stop",
    choose: "Choose a file",
    drop: "or drop a recording here. It is not stored.",
    hotWords: "Words to favour, such as names",
    play: "Play",
    pause: "Pause",
    position: "Position in the recording",
    recording: "Recording",
    recognizing: "Recognizing…",
    nothing: "No speech was found in this recording.",
    mistaken: "Half of this transcript or more is probably wrong. The model was probably trained on other speech.",
    confidence: "Confidence",
    sure: "90 % or more",
    fair: "70 % or more",
    unsure: "50 % or more",
    doubtful: "less",
    alternatives: "Other possibilities",
    again: "Try again",
    save: "Download recording",
    copy: "Copy",
    copied: "Copied",
    seconds: "seconds",
    minutes: "minutes",
    programs: "For programs",
    tokenAsk: "This server asks for its token",
    tokenUse: "Use it",
    // by the keys of asr/server/page/examples.py
    curl: "curl",
    subtitles: "Subtitles",
    "Python, pip install openai": "Python, pip install openai",
    microphoneDenied: "The browser does not allow this page to use the microphone. Allow it, then record again.",
    microphoneMissing: "No microphone was found. Connect one, or choose a file.",
    microphoneInsecure:
      "Browsers lend the microphone only to pages on this machine or by https. Choose a file instead.",
    errors: {
      network: "The server cannot be reached. Is it still running?",
      invalid_api_key: "The token is missing or wrong.",
      invalid_audio: "The server cannot read this file: it is damaged, or of a rare kind. Try M4A, MP3, MP4 or WAV.",
      too_large: "The recording is too long or too large: at most {length} and {megabytes} MiB. Cut it.",
      hot_words: "Too many words to favour: at most {words}, of {chars} characters each. Put spaces between them.",
      queue_full: "The server is busy with others. Try again in a moment.",
      busy: "The server is busy with others. Try again in a moment.",
      timeout: "The server took too long. Try again later, or with a shorter recording.",
      stopping: "The server is stopping. Try again later.",
      origin: "This page may not use the server.",
      cut: "The connection ended before the transcript was complete.",
      other: "The server answered: {message}",
    },
  },
  zh: {
    other: "English",
    input: "音频",
    result: "识别结果",
    record: "录音",
    stop: "停止",
    choose: "选择文件",
    drop: "或将录音拖放到此处。录音不会被保存。",
    hotWords: "热词，例如人名",
    play: "播放",
    pause: "暂停",
    position: "播放位置",
    recording: "录音",
    recognizing: "正在识别……",
    nothing: "这段录音中没有发现语音。",
    mistaken: "这段识别结果可能有一半以上是错的，模型大概没有学过这样的语音。",
    confidence: "置信度",
    sure: "不低于 90%",
    fair: "不低于 70%",
    unsure: "不低于 50%",
    doubtful: "更低",
    alternatives: "其他可能",
    again: "重试",
    save: "下载录音",
    copy: "复制",
    copied: "已复制",
    seconds: "秒",
    minutes: "分钟",
    programs: "供程序调用",
    tokenAsk: "此服务需要令牌",
    tokenUse: "使用",
    curl: "curl",
    subtitles: "字幕",
    "Python, pip install openai": "Python（pip install openai）",
    microphoneDenied: "浏览器不允许本页使用麦克风。请允许后重新录音。",
    microphoneMissing: "没有找到麦克风。请连接麦克风，或选择文件。",
    microphoneInsecure: "浏览器只允许本机或 https 网页使用麦克风。请改为选择文件。",
    errors: {
      network: "无法连接服务。它还在运行吗？",
      invalid_api_key: "缺少令牌，或令牌有误。",
      invalid_audio: "服务无法读取这个文件：文件已损坏，或格式少见。请换用 M4A、MP3、MP4 或 WAV。",
      too_large: "录音过长或过大：最多 {length}、{megabytes} MiB。请截短。",
      hot_words: "热词过多或过长：最多 {words} 个，每个最多 {chars} 字。请用空格隔开。",
      queue_full: "服务正忙，请稍后再试。",
      busy: "服务正忙，请稍后再试。",
      timeout: "服务未能及时完成。请稍后再试，或缩短录音。",
      stopping: "服务正在停止，请稍后再试。",
      origin: "本页无权使用此服务。",
      cut: "连接中断，识别结果不完整。",
      other: "服务答复：{message}",
    },
  },
};

useTexts(TEXTS);

// How long the longest recording may be.
export function lengthText(seconds) {
  return seconds < 120 ? `${seconds} ${text("seconds")}` : `${Math.round(seconds / 60)} ${text("minutes")}`;
}

// The sentence for an error; values fill its {places}.
export function errorText(code, values) {
  const errors = text("errors");
  return filled(errors[code] ?? errors.other, values);
}
