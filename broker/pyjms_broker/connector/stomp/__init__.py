"""STOMP clients: conversion of frames to commands, and of responses to frames."""
